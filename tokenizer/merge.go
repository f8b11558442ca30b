package tokenizer

import "sync"

// A merger holds the working memory of one Encode call.
type merger struct {
	nodes []node
	heap  []uint64 // rank<<32 | index of the left node; smallest first
}

// A node is one token of a piece in the making; together they are a list.
type node struct {
	id         int32
	prev, next int32  // -1 at the ends
	rank       uint32 // of merging this node with the next one
	merged     int32  // what that merge makes
}

var mergers = sync.Pool{New: func() any { return new(merger) }}

// keepNodes bounds the memory that an idle merger holds on to.
const keepNodes = 1 << 16

func (m *merger) release() {
	if cap(m.nodes) <= keepNodes {
		mergers.Put(m)
	}
}

// merge appends the tokens of one piece: it starts from single bytes and merges
// the pair of neighbours with the lowest rank, the leftmost of them first, until
// no pair merges. Every pair enters a heap once, so n bytes take n log n steps.
func (t *Tokenizer) merge(dst []int32, m *merger, piece string) []int32 {
	m.nodes = m.nodes[:0]
	for i := range len(piece) {
		m.nodes = append(m.nodes, node{t.byteID[piece[i]], int32(i - 1), int32(i + 1), noRank, -1})
	}
	nodes := m.nodes
	nodes[len(nodes)-1].next = -1
	m.heap = m.heap[:0]
	for i := range int32(len(nodes) - 1) {
		t.rankPair(m, i)
	}
	for len(m.heap) > 0 {
		top := m.pop()
		i := int32(uint32(top))
		left := &nodes[i]
		if left.rank != uint32(top>>32) {
			continue // an older pair of this node
		}
		right := &nodes[left.next]
		left.id, left.next, right.rank = left.merged, right.next, noRank
		if left.next >= 0 {
			nodes[left.next].prev = i
		}
		t.rankPair(m, i)
		if left.prev >= 0 {
			t.rankPair(m, left.prev)
		}
	}
	for i := int32(0); i >= 0; i = nodes[i].next {
		dst = append(dst, nodes[i].id)
	}
	return dst
}

// rankPair looks up the merge of node i with the one after it and queues it.
func (t *Tokenizer) rankPair(m *merger, i int32) {
	n := &m.nodes[i]
	n.rank = noRank
	if n.next < 0 {
		return
	}
	n.rank, n.merged = t.pairs.find(n.id, m.nodes[n.next].id)
	if n.rank != noRank {
		m.push(uint64(n.rank)<<32 | uint64(i))
	}
}

func (m *merger) push(x uint64) {
	m.heap = append(m.heap, x)
	h, i := m.heap, len(m.heap)-1
	for i > 0 && h[(i-1)/2] > x {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = x
}

func (m *merger) pop() uint64 {
	h := m.heap
	top, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	m.heap = h
	for i := 0; len(h) > 0; {
		c := 2*i + 1
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if c >= len(h) || x <= h[c] {
			h[i] = x
			break
		}
		h[i] = h[c]
		i = c
	}
	return top
}
