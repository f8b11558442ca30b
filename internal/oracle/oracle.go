package oracle

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// Oracle is the reference backend. Use [New].
//
// Handles count from 1; the zero handle is absent, so index 0 of every table is
// unused.
type Oracle struct {
	weights    []*mat.Dense
	rounded    map[backend.Weight]bool // by LoadRounded
	buffers    []*mat.Dense
	selections []*selection
	plans      []*plan

	running *pass
	done    chan struct{}
	closed  bool
}

// selection holds the ascending key positions of each row.
type selection struct {
	k     int
	lists [][]int32
}

// plan holds the experts of each row, in the order of selection, and their
// weights.
type plan struct {
	k       int
	ids     [][]int
	weights [][]float64
}

var _ backend.Backend = (*Oracle)(nil)

// New returns an oracle without weights.
func New() *Oracle {
	return &Oracle{
		weights:    make([]*mat.Dense, 1),
		rounded:    map[backend.Weight]bool{},
		buffers:    make([]*mat.Dense, 1),
		selections: make([]*selection, 1),
		plans:      make([]*plan, 1),
	}
}

// Name implements [backend.Backend].
func (o *Oracle) Name() string { return "oracle (float64)" }

// LoadWeight dequantises a weight to float64, [Rows, Cols].
func (o *Oracle) LoadWeight(v backend.View) (backend.Weight, error) {
	w, err := dequantise(v)
	if err != nil {
		return 0, err
	}
	o.weights = append(o.weights, w)
	return backend.Weight(len(o.weights) - 1), nil
}

// LoadKVB keeps kv_b_proj whole, [heads*(nope+vdim), latent]: the naive form
// multiplies by its rows as they are.
func (o *Oracle) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if heads <= 0 || nope <= 0 || vdim <= 0 || v.Rows != heads*(nope+vdim) {
		return 0, fmt.Errorf("oracle: weight %s: %d rows, want %d heads of %d + %d", v.Name, v.Rows, heads, nope, vdim)
	}
	return o.LoadWeight(v)
}

// NewBuffer returns a zeroed matrix.
func (o *Oracle) NewBuffer(rows, cols int) (backend.Buffer, error) {
	if rows <= 0 || cols <= 0 {
		return 0, fmt.Errorf("oracle: buffer of shape [%d %d]", rows, cols)
	}
	o.buffers = append(o.buffers, mat.NewDense(rows, cols, nil))
	return backend.Buffer(len(o.buffers) - 1), nil
}

// NewSelection returns empty selections.
func (o *Oracle) NewSelection(rows, k int) (backend.Selection, error) {
	if rows <= 0 || k <= 0 {
		return 0, fmt.Errorf("oracle: selection of shape [%d %d]", rows, k)
	}
	o.selections = append(o.selections, &selection{k: k, lists: make([][]int32, rows)})
	return backend.Selection(len(o.selections) - 1), nil
}

// NewPlan returns empty plans.
func (o *Oracle) NewPlan(rows, k int) (backend.Plan, error) {
	if rows <= 0 || k <= 0 {
		return 0, fmt.Errorf("oracle: plan of shape [%d %d]", rows, k)
	}
	o.plans = append(o.plans, &plan{k: k, ids: make([][]int, rows), weights: make([][]float64, rows)})
	return backend.Plan(len(o.plans) - 1), nil
}

// Read rounds the first rows of a buffer to f32.
func (o *Oracle) Read(b backend.Buffer, rows int) []float32 {
	m := o.buffers[b]
	_, cols := m.Dims()
	out := make([]float32, 0, rows*cols)
	for r := range rows {
		for _, v := range m.RawRowView(r) {
			out = append(out, float32(v))
		}
	}
	return out
}

// Write sets the first rows of a buffer.
func (o *Oracle) Write(b backend.Buffer, data []float32) {
	m := o.buffers[b]
	_, cols := m.Dims()
	for i, v := range data {
		m.Set(i/cols, i%cols, float64(v))
	}
}

// ReadSelection copies each row's positions.
func (o *Oracle) ReadSelection(s backend.Selection, rows int) [][]int32 {
	out := make([][]int32, rows)
	for r := range out {
		out[r] = append([]int32{}, o.selections[s].lists[r]...)
	}
	return out
}

// WriteSelection sets each row's positions, whatever they are.
func (o *Oracle) WriteSelection(s backend.Selection, lists [][]int32) {
	for r, l := range lists {
		o.selections[s].lists[r] = append([]int32{}, l...)
	}
}

// ReadPlan copies each row's experts and weights.
func (o *Oracle) ReadPlan(p backend.Plan, rows int) (ids [][]int32, weights [][]float32) {
	ids, weights = make([][]int32, rows), make([][]float32, rows)
	for r := range rows {
		for j, id := range o.plans[p].ids[r] {
			ids[r] = append(ids[r], int32(id))
			weights[r] = append(weights[r], float32(o.plans[p].weights[r][j]))
		}
	}
	return ids, weights
}

// Close waits for a running step and drops everything.
func (o *Oracle) Close() error {
	if o.done != nil {
		<-o.done
	}
	*o = Oracle{closed: true}
	return nil
}

var (
	errClosed  = errors.New("oracle: closed")
	errBusy    = errors.New("oracle: a step is running")
	errNoStep  = errors.New("oracle: Wait without Start")
	errForeign = errors.New("oracle: pages of another backend, or closed")
)
