package cpu

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// softmaxPart is softmax attention over some keys, not yet divided: the largest
// score, the sum of exp(score - max) and the values weighted alike.
type softmaxPart struct {
	max, sum float32
	out      []float32
	p        [keyBlock]float32
}

// block attends over at most keyBlock keys.
func (s *softmaxPart) block(q []float32, keys, vals [][]float32, scale float32, width int) {
	s.max = float32(math.Inf(-1))
	for i, key := range keys {
		s.p[i] = dot(q, key) * scale
		if s.p[i] > s.max {
			s.max = s.p[i]
		}
	}
	s.sum = 0
	clear(grow(&s.out, width))
	for i, val := range vals {
		p := exp(s.p[i] - s.max)
		s.sum += p
		axpy(p, val[:width], s.out)
	}
}

// add combines a later block into s.
func (s *softmaxPart) add(o *softmaxPart) {
	m := s.max
	if o.max > m {
		m = o.max
	}
	a, c := exp(s.max-m), exp(o.max-m)
	s.max, s.sum = m, float32(s.sum*a)+float32(o.sum*c)
	for i, v := range o.out {
		s.out[i] = float32(s.out[i]*a) + float32(v*c)
	}
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

// keyList is the ascending list of positions a row attends over: its selection,
// or every visible one when pos is nil.
type keyList struct {
	pos []int32
	n   int
}

func (l keyList) at(i int) int {
	if l.pos == nil {
		return i
	}
	return int(l.pos[i])
}

// heads describes the query heads that share one key and value row.
type heads struct {
	q, out      []float32 // the row's queries and outputs of all heads
	first, last int
	qWidth      int // of one head's query, and of the key part
	outWidth    int // of one head's output, and of the value part
	outStride   int // from one head's output to the next
	keyOff      int // where the shared part starts in the plane rows
	kPlane      int
	vPlane      int
	scale       float32
}

// attend computes the outputs of heads [first, last) of one row over its keys.
// Each block of keys is gathered once for all of them.
func (b *Backend) attend(k *worker, r int32, list keyList, h heads) {
	s, seq := b.step, b.step.Seq[r]
	kWidth, vWidth := b.pages.spec.Planes[h.kPlane], b.pages.spec.Planes[h.vPlane]
	n := h.last - h.first
	accs := grow(&k.accs, n)
	buf := grow(&k.keys, keyBlock*(kWidth+vWidth))
	for at := 0; at < list.n; at += keyBlock {
		if b.pool.stopped() {
			return
		}
		m := min(keyBlock, list.n-at)
		keys, vals := grow(&k.keyRows, m), grow(&k.valRows, m)
		for i := range m {
			row := b.pages.read(s, seq, list.at(at+i), h.kPlane, buf[i*kWidth:])
			keys[i], vals[i] = row[h.keyOff:h.keyOff+h.qWidth], row[h.keyOff:]
			if h.vPlane != h.kPlane {
				vals[i] = b.pages.read(s, seq, list.at(at+i), h.vPlane, buf[keyBlock*kWidth+i*vWidth:])[h.keyOff:]
			}
		}
		for i := range n {
			q := h.q[(h.first+i)*h.qWidth : (h.first+i+1)*h.qWidth]
			if at == 0 {
				accs[i].block(q, keys, vals, h.scale, h.outWidth)
				continue
			}
			k.part.block(q, keys, vals, h.scale, h.outWidth)
			accs[i].add(&k.part)
		}
	}
	for i := range n {
		at := (h.first + i) * h.outStride
		out := h.out[at : at+h.outWidth]
		if list.n == 0 {
			clear(out)
			continue
		}
		inv := 1 / accs[i].sum
		for j, v := range accs[i].out {
			out[j] = v * inv
		}
	}
}

// headGroup is how many heads one attention task takes: enough to reuse a
// gathered key block, few enough to spread a few rows over the workers.
func (b *Backend) headGroup(rows, heads int) int {
	tasks := 2 * len(b.pool.workers) // for balance
	return max(1, min(16, heads*rows/tasks))
}

// listOf returns the keys a row attends over, and whether the list is lawful:
// ascending, without repeats, in [0, position of the row].
func (b *Backend) listOf(sel backend.Selection, r int32) (l keyList, ok bool) {
	last := b.step.Pos[r]
	if sel == 0 {
		return keyList{n: int(last) + 1}, true
	}
	s := b.selection(sel)
	n := s.count[r]
	if n < 0 || int(n) > s.k {
		return keyList{}, false
	}
	pos := s.pos[int(r)*s.k : int(r)*s.k+int(n)]
	prev := int32(-1)
	for _, p := range pos {
		if p <= prev || p > last {
			return keyList{}, false
		}
		prev = p
	}
	return keyList{pos: pos, n: int(n)}, true
}
