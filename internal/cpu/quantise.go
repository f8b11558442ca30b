package cpu

import "github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"

// lines are what a product multiplies with a weight: rows of a matrix, for stored
// weights, and the same rows rounded to 8 bits, for packed ones.
type lines struct {
	mat
	rows  []int32
	codes *kernel.Quantized // line first+i is rows[i]; nil if no weight is packed
	first int
}

// codes are the rounded activations of the operation that runs. A row is rounded
// once, where it is made or before the first product that reads it; tiles, experts,
// gate and up share the result.
type codes struct {
	x      kernel.Quantized // inputs; in attention the heads' queries
	latent kernel.Quantized // MLA's latent queries; in attention the heads' outputs
	slots  kernel.Quantized // inputs of experts with several rows, together by expert
	hidden kernel.Quantized // between gate and down
}

// rounded makes room in q for n lines of k elements if one of the weights is
// packed, and returns nil if none is.
func rounded(q *kernel.Quantized, n, k int, ws ...*weight) *kernel.Quantized {
	for _, w := range ws {
		if w.panels != nil {
			q.Resize(n, k)
			return q
		}
	}
	return nil
}

// lines returns rows of x for products with the weights.
func (b *Backend) lines(q *kernel.Quantized, x mat, rows []int32, ws ...*weight) lines {
	l := lines{mat: x, rows: rows, codes: rounded(q, len(rows), ws[0].Cols, ws...)}
	if l.codes != nil {
		p := &b.phases.round
		*p = roundPhase{l, ws[0].Cols}
		b.pool.run(len(rows), p)
	}
	return l
}

// roundPhase rounds a row a task.
type roundPhase struct {
	lines
	width int
}

func (p *roundPhase) task(_ *worker, i int) {
	p.codes.Set(i, p.row(p.rows[i], p.width))
}

// normLines writes the RMS norm of each active row of h to dst and returns these
// rows for products with the weights.
func (b *Backend) normLines(q *kernel.Quantized, dst, h mat, norm []float32, eps float32, ws ...*weight) lines {
	l := lines{mat: dst, rows: b.active, codes: rounded(q, len(b.active), len(norm), ws...)}
	p := &b.phases.norm
	*p = normPhase{l, h, norm, eps}
	b.pool.run(len(b.active), p)
	return l
}

type normPhase struct {
	lines
	h    mat
	norm []float32
	eps  float32
}

func (p *normPhase) task(_ *worker, i int) {
	r, width := p.rows[i], len(p.norm)
	x := p.row(r, width)
	rmsNorm(x, p.h.row(r, width), p.norm, p.eps)
	if p.codes != nil {
		p.codes.Set(i, x)
	}
}
