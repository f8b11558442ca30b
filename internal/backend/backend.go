package backend

import "errors"

// Handles are issued by a backend and mean nothing to another one. The zero
// value of each means "absent".
type (
	// Weight is a loaded weight, in a layout that is the backend's own.
	Weight int32
	// Buffer is a scratch matrix of f32, [rows, cols].
	Buffer int32
	// Selection holds up to k ascending key positions for each row.
	Selection int32
	// Plan holds the experts that each row chose and their weights.
	Plan int32
)

// Backend computes programs over steps.
type Backend interface {
	// Name says which backend and instruction set compute, for reports.
	Name() string

	// LoadWeight prepares one weight matrix or vector.
	LoadWeight(View) (Weight, error)

	// LoadKVB prepares kv_b_proj, [heads*(nope+v), latent], for MLAAttend. Each
	// head's first nope rows are W_uk, its next v rows W_uv. The split follows
	// dequantisation, because FP8 blocks straddle heads; W_uk is kept
	// transposed, because absorption contracts over nope.
	LoadKVB(v View, heads, nope, vdim int) (Weight, error)

	// NewBuffer returns a scratch matrix of at most rows rows.
	NewBuffer(rows, cols int) (Buffer, error)
	// NewSelection returns selections of up to k positions for each of rows.
	NewSelection(rows, k int) (Selection, error)
	// NewPlan returns routing plans of k experts for each of rows.
	NewPlan(rows, k int) (Plan, error)
	// NewPages returns KV memory, zeroed.
	NewPages(PageSpec) (Pages, error)

	// Start checks the step, uploads it and starts the work. A step that breaks
	// the contract is a *StepError, and nothing was started.
	Start(Program, *Step, Pages) error
	// Wait blocks until the started step has ended. A *FaultError means that the
	// step stopped inside an operation; what it wrote is of no use.
	Wait() (*Result, error)

	// Read copies the first rows rows of a buffer.
	Read(b Buffer, rows int) []float32
	// Write fills the first rows of a buffer; len(data) is a multiple of its columns.
	Write(b Buffer, data []float32)
	// ReadSelection returns each row's positions, as long as its count says.
	ReadSelection(s Selection, rows int) [][]int32
	// WriteSelection sets each row's positions, unchecked: a test's stale list.
	WriteSelection(s Selection, lists [][]int32)
	// ReadPlan returns each row's experts in selection order and their weights.
	ReadPlan(p Plan, rows int) (ids [][]int32, weights [][]float32)

	// Close frees what the backend holds. Idempotent.
	Close() error
}

// Health is what went wrong with a row; zero is healthy.
type Health uint8

const (
	// NonFinite: the row met a NaN or an infinity in its final hidden vector or
	// its logits, or had no key with a usable score.
	NonFinite Health = 1 << iota
	// TagMismatch: a page of the row's sequence carries another tag than the step
	// says, or the sequence would write into a page that is not its own. No row of
	// that sequence read or wrote anything.
	TagMismatch
	// BadSelection: a selected position was negative, above the row's own
	// position, or out of order.
	BadSelection
	// NothingAllowed: adjustment left no id that may be sampled.
	NothingAllowed
)

func (h Health) String() string {
	if h == 0 {
		return "healthy"
	}
	s := ""
	for i, name := range []string{"non-finite", "tag mismatch", "bad selection", "nothing allowed"} {
		if h&(1<<i) != 0 {
			if s != "" {
				s += ", "
			}
			s += name
		}
	}
	return s
}

// Result is what a step leaves behind. Its slices are valid until the next Start.
type Result struct {
	Epoch   uint64   // the step's, echoed
	Session []uint64 // the step's, echoed
	Tag     []uint64 // the step's, echoed
	Aborted bool     // the abort word was seen: pages written hold no defined content

	Health  []Health  // one per row
	ID      []int32   // one per out row; -1 where the row failed or none was sampled
	LogProb []float32 // natural logarithm, one per out row
	Top     [][]TokenProb
}

// TokenProb is an id with the natural logarithm of its probability.
type TokenProb struct {
	ID      int32
	LogProb float32
}

// ErrUnsupported: the backend cannot compute this operation or load this layout.
var ErrUnsupported = errors.New("backend: unsupported")
