package cpu

import "github.com/cofferdam-ml/cofferdam/internal/backend"

// mat is a row-major matrix: row r starts at r*stride.
type mat struct {
	data   []float32
	stride int
}

func (m mat) row(r int32, width int) []float32 {
	at := int(r) * m.stride
	return m.data[at : at+width : at+width]
}

// from returns the matrix without its first columns.
func (m mat) from(col int) mat { return mat{m.data[col:], m.stride} }

// linear computes row r of dst as W x + bias, or adds it, for each row r of x.
func (b *Backend) linear(dst mat, x lines, w *weight, bias []float32, add bool) {
	if len(x.rows) == 0 {
		return
	}
	p := &b.phases.linear
	*p = linearPhase{dst, x, w, bias, add, b.pieces(w.Rows, len(x.rows), longTile)}
	b.pool.run(len(p.bounds)-1, p)
}

type linearPhase struct {
	dst    mat
	x      lines
	w      *weight
	bias   []float32
	add    bool
	bounds []int // of the weight rows of tasks
}

func (p *linearPhase) task(k *worker, i int) {
	n0, n1 := p.bounds[i], p.bounds[i+1]
	t := k.products(&k.y, p.w, n0, n1, p.x)
	for line, r := range p.x.rows {
		out := p.dst.row(r, p.w.Rows)[n0:]
		for j, v := range t.line(line) {
			if p.bias != nil {
				v += p.bias[n0+j]
			}
			if p.add {
				v += out[j]
			}
			out[j] = v
		}
	}
}

func (b *Backend) runLinear(op *backend.Linear) {
	w := b.weight(op.W)
	x := b.lines(&b.codes.x, b.mat(op.X), b.active, w)
	b.linear(b.mat(op.Dst), x, w, b.vector(op.Bias), op.Add)
}
