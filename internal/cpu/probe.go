package cpu

import (
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// Read implements backend.Backend.
func (b *Backend) Read(h backend.Buffer, rows int) []float32 {
	m := b.mat(h)
	return slices.Clone(m.data[:rows*m.stride])
}

// Write implements backend.Backend.
func (b *Backend) Write(h backend.Buffer, data []float32) { copy(b.mat(h).data, data) }

// ReadSelection implements backend.Backend.
func (b *Backend) ReadSelection(h backend.Selection, rows int) [][]int32 {
	s, out := b.selection(h), make([][]int32, rows)
	for r := range out {
		out[r] = slices.Clone(s.pos[r*s.k : r*s.k+int(s.count[r])])
	}
	return out
}

// WriteSelection implements backend.Backend.
func (b *Backend) WriteSelection(h backend.Selection, lists [][]int32) {
	s := b.selection(h)
	for r, l := range lists {
		s.count[r] = int32(copy(s.pos[r*s.k:(r+1)*s.k], l))
	}
}

// ReadPlan implements backend.Backend.
func (b *Backend) ReadPlan(h backend.Plan, rows int) (ids [][]int32, weights [][]float32) {
	p := b.plan(h)
	for r := range rows {
		ids = append(ids, slices.Clone(p.ids[r*p.k:(r+1)*p.k]))
		weights = append(weights, slices.Clone(p.weights[r*p.k:(r+1)*p.k]))
	}
	return ids, weights
}
