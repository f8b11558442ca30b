package cpu

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

var negInf = float32(math.Inf(-1))

func finite(x float32) bool { return x-x == 0 }

func (b *Backend) runFinalNorm(op *backend.FinalNorm) {
	h, dst := b.mat(op.H), b.mat(op.Dst)
	norm := b.vector(op.Norm)
	b.pool.run(len(b.active), func(_ *worker, i int) {
		r := b.active[i]
		x := h.row(r, len(norm))
		ok := finite(kernel.Dot(x, x)) // if this overflows, the norm is a harmless zero
		rmsNorm(dst.row(r, len(norm)), x, norm, op.Eps)
		for _, v := range dst.row(r, len(norm)) {
			ok = ok && finite(v)
		}
		if !ok {
			b.result.Health[r] |= backend.NonFinite
		}
	})
}

// runLogits multiplies the out rows only; line i of the result is row Out[i].
func (b *Backend) runLogits(op *backend.Logits) {
	n, head, dst := b.mat(op.N), b.weight(op.Head), b.mat(op.Dst)
	s := b.step
	lines, rows := b.outLines[:0], b.outRows[:0]
	for i, r := range s.Out {
		if b.alive[r] {
			lines, rows = append(lines, int32(i)), append(rows, r)
		}
	}
	b.outLines, b.outRows = lines, rows
	if len(rows) == 0 {
		return
	}
	tasks, per := b.tiles(head.Rows, 1)
	b.pool.run(tasks, func(k *worker, task int) {
		n0 := task * per
		t := k.products(&k.y, head, n0, min(n0+per, head.Rows), n, rows)
		t.each(func(line, c int, y []float32) {
			out := dst.row(lines[line], head.Rows)[c:]
			for j, v := range y {
				if c+j < op.Valid {
					out[j] = v
				} else {
					out[j] = negInf
				}
			}
		})
	})
	b.eachOut(func(i int) backend.Health {
		for _, v := range dst.row(int32(i), head.Rows)[:min(op.Valid, head.Rows)] {
			if !finite(v) {
				return backend.NonFinite
			}
		}
		return 0
	})
}

// eachOut runs f for every out row that takes part and has not failed, and notes
// what it finds. Out rows may repeat, so the notes are put together afterwards.
func (b *Backend) eachOut(f func(i int) backend.Health) {
	s := b.step
	found := grow(&b.found, len(s.Out))
	clear(found)
	b.pool.run(len(s.Out), func(_ *worker, i int) {
		if r := s.Out[i]; b.alive[r] && b.result.Health[r] == 0 {
			found[i] = f(i)
		}
	})
	for i, h := range found {
		b.result.Health[s.Out[i]] |= h
	}
}

func (b *Backend) runAdjustLogits(op *backend.AdjustLogits) {
	m, s := b.mat(op.L), b.step
	b.pool.run(len(s.Sampling), func(_ *worker, i int) {
		if b.alive[s.Out[i]] {
			adjust(m.row(int32(i), m.stride), &s.Sampling[i])
		}
	})
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
