package cpu

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// parts are softmax attention of some heads over some keys, not yet divided: per
// head the largest score, the sum of exp(score - max) and the values weighted
// alike.
type parts struct {
	max, sum []float32
	out      []float32 // [heads, width]
	width    int
}

// size makes room for what a block writes.
func (p *parts) size(heads, width int) {
	grow(&p.max, heads)
	grow(&p.sum, heads)
	grow(&p.out, heads*width)
	p.width = width
}

func (p *parts) head(i int) []float32 { return p.out[i*p.width : (i+1)*p.width] }

// normalise writes the output of head i over n keys: its values by its sum.
func (p *parts) normalise(out []float32, i, n int) {
	if n == 0 {
		clear(out)
		return
	}
	inv := 1 / p.sum[i]
	for j, v := range p.head(i) {
		out[j] = v * inv
	}
}

// add combines a later block of the heads from [first] on into p.
func (p *parts) add(first int, o *parts) {
	for i, largest := range o.max {
		at := first + i
		m := p.max[at]
		if largest > m {
			m = largest
		}
		a, c := exp(p.max[at]-m), exp(largest-m)
		p.max[at], p.sum[at] = m, float32(p.sum[at]*a)+float32(o.sum[i]*c)
		kernel.Blend(p.head(at), a, o.head(i), c)
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

// attend computes the outputs of heads [first, last) of one row over its keys, block
// by block.
func (b *Backend) attend(k *worker, r int32, list keyList, h heads) {
	n := h.last - h.first
	total, block := &k.total, &k.block
	total.size(n, h.outWidth)
	for at := 0; at < list.n; at += keyBlock {
		if b.pool.stopped() {
			return
		}
		part := block
		if at == 0 {
			part = total
		}
		part.size(n, h.outWidth)
		b.attendBlock(k, r, list, at, h, part)
		if at > 0 {
			total.add(0, block)
		}
	}
	for i := range n {
		at := (h.first + i) * h.outStride
		total.normalise(h.out[at:at+h.outWidth], i, list.n)
	}
}

// attendBlock attends over the block of keys that begins at [at] in the list: first
// the scores of all heads, then the weighted values.
func (b *Backend) attendBlock(k *worker, r int32, list keyList, at int, h heads, part *parts) {
	n, m := h.last-h.first, min(keyBlock, list.n-at)
	keys, vals := b.keyRows(k, r, list, at, m, h)
	scores := k.scoreBlock(keys, m, h)
	padded := roundUp(m, lanes)
	for i := range n {
		s := scores[i*keyBlock:][:padded]
		for j := m; j < padded; j++ {
			s[j] = negInf
		}
		part.max[i], part.sum[i] = kernel.Softmax(s, h.scale)
	}
	for j := 0; j < m; {
		rows, stride, run := vals.run(j, m)
		kernel.Weigh(part.out, h.outWidth, scores[j:], keyBlock, n, rows, stride, run, h.outWidth, j > 0)
		j += run
	}
}

// scoreBlock returns q·k of every head and of m keys, unscaled: [heads, keyBlock].
func (k *worker) scoreBlock(keys planeRows, m int, h heads) []float32 {
	n := h.last - h.first
	scores := grow(&k.scores, n*keyBlock)
	queries := mat{h.q[h.first*h.qWidth:], h.qWidth}
	for j := 0; j < m; {
		rows, stride, run := keys.groups(k, j, m)
		if h.qWidth%lanes == 0 {
			kernel.Dots(scores[j:], keyBlock, queries.data, queries.stride, n, rows, stride, run, h.qWidth)
			j += run
			continue
		}
		for i, v := range k.small(rows, stride, queries, n, h.qWidth) {
			scores[i/groupRows*keyBlock+j+i%groupRows] = v
		}
		j += groupRows
	}
	return scores
}

// headGroup is how many heads one attention task takes: enough to read each key
// block for many of them, few enough to spread rows over the workers.
func (b *Backend) headGroup(rows, heads int) int {
	tasks := 2 * len(b.pool.workers) // for balance
	most := max(1, min(32, heads*rows/tasks))
	groups := (heads + most - 1) / most
	return (heads + groups - 1) / groups
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
