package kvcache

import (
	"fmt"
	"time"
)

// NullPage is the page that padding points at: never leased, never written,
// always zero, tag 0.
const NullPage = 0

// Admission is the policy for output that may not fit.
type Admission uint8

const (
	// Strict reserves prompt, output and draft slack before any work; nothing
	// that runs is ever preempted.
	Strict Admission = iota
	// Clamp cuts the output to what the context leaves, reserves the prompt and
	// one page, and grows page by page. When no page is free, the youngest
	// Clamp request gives its pages back and is computed again later, once.
	Clamp
)

func (a Admission) String() string {
	switch a {
	case Strict:
		return "strict"
	case Clamp:
		return "clamp"
	}
	return fmt.Sprintf("Admission(%d)", uint8(a))
}

// Identity is everything besides tokens that decides the bytes of a KV row.
// Two pools share or hand over pages only if all of it is equal. The values
// are opaque: equal strings mean equal bytes.
type Identity struct {
	Weights   string // fingerprint of the checkpoint
	Tokenizer string // fingerprint of the tokenizer
	Format    string // element type and scales of KV rows
	Geometry  string // planes, their widths and layers
	Rope      string // rotary form and its settings
	NormEps   string
	Numerics  string // numerics mode, such as absorbed or expanded prefill
}

// Config describes a pool.
type Config struct {
	Pages    int // pages of the store, the null page included
	PageSize int // positions a page holds; a multiple of 4, the indexer's pool size
	Context  int // the model's context, or a smaller one the operator wants; tokens
	Slack    int // rows beyond the output that a step may write: draft tokens

	// AllowSmallerPool accepts a pool that cannot hold Context; then the
	// smaller number is the limit, everywhere.
	AllowSmallerPool bool
	Admission        Admission

	Queue     int           // requests that may wait for room; 0: none waits
	QueueWait time.Duration // longest wait; must be positive if Queue is
	Identity  Identity
	// Checksums sums every page when it is sealed, and compares the sum when
	// another request is about to read it and when a hand-off commits.
	Checksums bool
	// Audit receives one record per event, in order, with the pool locked: it
	// must not call the pool. nil: none.
	Audit func(Record)
}

func (c Config) check() error {
	for _, f := range []struct {
		field string
		ok    bool
		want  string
		have  any
	}{
		{"Pages", c.Pages >= 2 && c.Pages <= maxPages, fmt.Sprintf("2 (the null page and one more) to %d", maxPages), c.Pages},
		{"PageSize", c.PageSize >= 4 && c.PageSize%4 == 0 && c.PageSize <= 4096, "a multiple of 4, 4 to 4096", c.PageSize},
		{"Context", c.Context >= 2 && c.Context <= maxContext, fmt.Sprintf("2 to %d tokens", maxContext), c.Context},
		{"Slack", c.Slack >= 0 && c.Slack <= 4096, "0 to 4096 rows", c.Slack},
		{"Admission", c.Admission <= Clamp, "strict or clamp", c.Admission},
		{"Queue", c.Queue >= 0, "0 or more requests", c.Queue},
		{"QueueWait", c.Queue == 0 || c.QueueWait > 0, "more than 0 with a queue", c.QueueWait},
	} {
		if !f.ok {
			return &FieldError{Field: f.field, Want: f.want, Have: fmt.Sprint(f.have)}
		}
	}
	l := limitsOf(c.Context, c.Pages, c.PageSize, c.Slack, 0)
	if l.Context < 2 || l.Context < c.Context && !c.AllowSmallerPool {
		return &ContextError{Prompt: c.Context, Max: l.Context, Pool: l.Pool, Limit: l.Binding}
	}
	return nil
}

const (
	maxPages   = 1 << 28
	maxContext = 1 << 30
)
