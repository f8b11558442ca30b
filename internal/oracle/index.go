package oracle

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// indexProject makes what the lightning indexer scores with (DeepSeek-V3.2,
// arXiv 2512.02556, section 2.1). The rope part comes first here, the
// opposite of the attention's queries.
func (p *pass) indexProject(op *backend.IndexProject) {
	for _, r := range p.live {
		pos := p.step.Pos[r]
		x := p.row(op.X, r)

		q := p.times(op.WQB, p.row(op.CQ, r))
		for _, head := range heads(q, op.Heads) {
			ropeInterleaved(head[:op.Rope.Dim], op.Rope, pos)
		}

		k := layerNorm(p.times(op.WK, x), p.vector(op.KNorm), p.vector(op.KNormBias), backend.IndexNormEps)
		ropeInterleaved(k[:op.Rope.Dim], op.Rope, pos)

		w := p.times(op.WeightsProj, x)
		floats.Scale(1/math.Sqrt(float64(op.Heads)), w)

		p.setKey(r, op.Plane, k)
		p.put(op.Q, r, q, false)
		p.put(op.W, r, w, false)
	}
}

// indexSelect scores and selects keys, with a total order: larger score,
// then lower position; a NaN score is never chosen, and fails the row.
func (p *pass) indexSelect(op *backend.IndexSelect) {
	for _, r := range p.live {
		visible := p.visible(r)
		if len(visible) > op.K {
			scores := p.indexScores(op, r, visible)
			if hasNaN(scores) {
				p.fail(r, backend.NonFinite)
			}
			visible = largest(scores, op.K)
			slices.Sort(visible)
		}
		if len(visible) == 0 {
			p.fail(r, backend.NonFinite)
		}
		dst := p.o.selections[op.Dst]
		if len(visible) > dst.k {
			panic("a selection is too small for its operation")
		}
		list := make([]int32, len(visible))
		for i, pos := range visible {
			list[i] = int32(pos)
		}
		dst.lists[r] = list
	}
}

// indexScores computes sum over heads of w * relu(q . k * HeadDim^(-1/2)) for
// each position.
func (p *pass) indexScores(op *backend.IndexSelect, r int, positions []int) []float64 {
	q := heads(p.row(op.Q, r), op.Heads)
	w := p.row(op.W, r)
	scale := 1 / math.Sqrt(float64(op.HeadDim))
	scores := make([]float64, len(positions))
	for i, pos := range positions {
		k := p.key(int(p.step.Seq[r]), op.Plane, pos)
		for h := range q {
			scores[i] += w[h] * relu(floats.Dot(q[h], k)*scale)
		}
	}
	return scores
}

// relu lets a NaN through: a key that was never written must not score 0.
func relu(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

// visible lists the positions a row may see: all up to its own.
func (p *pass) visible(r int) []int {
	out := make([]int, p.step.Pos[r]+1)
	for i := range out {
		out[i] = i
	}
	return out
}

// largest returns the indices of the k largest values, best first; equal values
// are ordered by lower index, and NaN is left out.
func largest(values []float64, k int) []int {
	var order []int
	for i, v := range values {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return values[order[a]] > values[order[b]] })
	return order[:min(k, len(order))]
}
