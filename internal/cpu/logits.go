package cpu

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

var negInf = float32(math.Inf(-1))

func finite(x float32) bool { return x-x == 0 }

func (b *Backend) runFinalNorm(op *backend.FinalNorm) {
	p := &b.phases.finalNorm
	*p = finalNormPhase{b, b.mat(op.H), b.mat(op.Dst), b.vector(op.Norm), op.Eps}
	b.pool.run(len(b.active), p)
}

type finalNormPhase struct {
	b      *Backend
	h, dst mat
	norm   []float32
	eps    float32
}

func (p *finalNormPhase) task(_ *worker, i int) {
	r, width := p.b.active[i], len(p.norm)
	x, y := p.h.row(r, width), p.dst.row(r, width)
	ok := finite(kernel.Dot(x, x)) // if this overflows, the norm is a harmless zero
	rmsNorm(y, x, p.norm, p.eps)
	for _, v := range y {
		ok = ok && finite(v)
	}
	if !ok {
		p.b.result.Health[r] |= backend.NonFinite
	}
}

// runLogits multiplies the out rows only; line i of the result is row Out[i].
func (b *Backend) runLogits(op *backend.Logits) {
	head, dst := b.weight(op.Head), b.mat(op.Dst)
	p := &b.phases.logits
	*p = logitsPhase{op, lines{}, dst, head, nil, p.lines[:0], p.rows[:0]}
	for i, r := range b.step.Out {
		if b.alive[r] {
			p.lines, p.rows = append(p.lines, int32(i)), append(p.rows, r)
		}
	}
	if len(p.rows) == 0 {
		return
	}
	p.x = b.lines(&b.codes.x, b.mat(op.N), p.rows, head)
	p.bounds = b.pieces(head.Rows, len(p.rows), longTile)
	b.pool.run(len(p.bounds)-1, p)
	out := &b.phases.out
	*out = outPhase{b: b, l: mat{dst.data, head.Rows}, valid: min(op.Valid, head.Rows)}
	b.eachOut(out)
}

type logitsPhase struct {
	op          *backend.Logits
	x           lines
	dst         mat
	head        *weight
	bounds      []int   // of the weight rows of tasks
	lines, rows []int32 // lines of the result, and the rows that they come from
}

func (p *logitsPhase) task(k *worker, i int) {
	n0, n1 := p.bounds[i], p.bounds[i+1]
	t := k.products(&k.y, p.head, n0, n1, p.x)
	for i, line := range p.lines {
		out := p.dst.row(line, p.head.Rows)[n0:]
		for j, v := range t.line(i) {
			if n0+j < p.op.Valid {
				out[j] = v
			} else {
				out[j] = negInf
			}
		}
	}
}

// outPhase looks at the logits of out rows, or samples from them.
type outPhase struct {
	b      *Backend
	l      mat
	valid  int
	sample bool
}

func (p *outPhase) task(k *worker, i int) {
	b := p.b
	if r := b.step.Out[i]; !b.alive[r] || b.result.Health[r] != 0 {
		return
	}
	line := p.l.row(int32(i), p.l.stride)
	if p.sample {
		b.found[i] = b.sampleOut(k, i, line)
		return
	}
	for _, v := range line[:p.valid] {
		if !finite(v) {
			b.found[i] = backend.NonFinite
			return
		}
	}
}

// eachOut runs p for every out row that takes part and has not failed, and notes
// what it finds. Out rows may repeat, so the notes are put together afterwards.
func (b *Backend) eachOut(p *outPhase) {
	clear(grow(&b.found, len(b.step.Out)))
	b.pool.run(len(b.step.Out), p)
	for i, h := range b.found {
		b.result.Health[b.step.Out[i]] |= h
	}
}

func (b *Backend) runAdjustLogits(op *backend.AdjustLogits) {
	p := &b.phases.adjust
	*p = adjustPhase{b, b.mat(op.L)}
	b.pool.run(len(b.step.Sampling), p)
}

type adjustPhase struct {
	b *Backend
	l mat
}

func (p *adjustPhase) task(_ *worker, i int) {
	s := p.b.step
	if p.b.alive[s.Out[i]] {
		adjust(p.l.row(int32(i), p.l.stride), &s.Sampling[i])
	}
}

// adjust applies penalties, biases and the mask in the documented order. Ids
// outside the vocabulary are ignored.
func adjust(l []float32, p *backend.Sampling) {
	for _, c := range p.Counts {
		if c.ID < 0 || int(c.ID) >= len(l) {
			continue
		}
		x := l[c.ID]
		if p.Repetition != 0 && p.Repetition != 1 {
			if x > 0 {
				x /= p.Repetition
			} else {
				x *= p.Repetition
			}
		}
		if c.Count > 0 {
			x -= p.Presence + float32(p.Frequency*float32(c.Count))
		}
		l[c.ID] = x
	}
	for _, c := range p.Bias {
		if c.ID >= 0 && int(c.ID) < len(l) {
			l[c.ID] += c.Bias
		}
	}
	if p.Mask != nil {
		for i := range l {
			if w := i / 64; w >= len(p.Mask) || p.Mask[w]>>(i%64)&1 == 0 {
				l[i] = negInf
			}
		}
	}
}
