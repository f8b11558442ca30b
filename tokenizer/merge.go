package tokenizer

import "sync"

// Merging is byte-pair encoding itself: a piece starts as single bytes, and the
// pair of neighbours with the lowest rank, the leftmost of them first, is merged
// until no pair merges. Short pieces do that in place, in time that grows with
// the square of the length but is the fastest there. Long ones, which users can
// send on purpose, keep a list and a heap, and n bytes take n log n steps.

// shortPiece is the length up to which a piece is merged in place.
const shortPiece = 128

// A merger holds the working memory of one Encode call.
type merger struct {
	limit int // longest piece to merge as one
	short [shortPiece]part
	nodes []node
	heap  []uint64 // rank<<32 | index of the left node; smallest first
}

// A part is one token of a short piece.
type part struct {
	id   int32
	rank uint32 // of merging this token with the next one; noRank for the last
}

var mergers = sync.Pool{New: func() any { return &merger{limit: maxPiece} }}

// maxPiece bounds the working memory for one piece (24 bytes for each of its
// bytes) and keeps indexes within 32 bits. Longer pieces are cut there.
const maxPiece = 64 << 20

// keepNodes bounds the memory that an idle merger holds on to.
const keepNodes = 1 << 16

func (m *merger) release() {
	if cap(m.nodes) > keepNodes {
		m.nodes, m.heap = nil, nil
	}
	mergers.Put(m)
}

// merge appends the tokens of one piece to dst.
func (t *Tokenizer) merge(dst []int32, m *merger, piece string) []int32 {
	for len(piece) > m.limit {
		dst = t.mergeLong(dst, m, piece[:m.limit])
		piece = piece[m.limit:]
	}
	if len(piece) <= shortPiece {
		return t.mergeShort(dst, m, piece)
	}
	return t.mergeLong(dst, m, piece)
}

func (t *Tokenizer) mergeShort(dst []int32, m *merger, piece string) []int32 {
	parts := m.short[:len(piece)]
	for i := range parts {
		parts[i] = part{t.byteID[piece[i]], noRank}
		if i > 0 {
			parts[i-1].rank = t.pairs.twoBytes[int(piece[i-1])<<8|int(piece[i])]
		}
	}
	for {
		lowest, at := uint32(noRank), 0
		for i := range parts {
			if r := parts[i].rank; r < lowest {
				lowest, at = r, i
			}
		}
		if lowest == noRank {
			break
		}
		parts[at].id = t.pairs.merged[lowest]
		copy(parts[at+1:], parts[at+2:])
		parts = parts[:len(parts)-1]
		parts[at].rank = noRank
		if at+1 < len(parts) {
			parts[at].rank = t.pairs.rank(parts[at].id, parts[at+1].id)
		}
		if at > 0 {
			parts[at-1].rank = t.pairs.rank(parts[at-1].id, parts[at].id)
		}
	}
	for _, p := range parts {
		dst = append(dst, p.id)
	}
	return dst
}

// A node is one token of a long piece; together they are a list.
type node struct {
	id         int32
	prev, next int32  // -1 at the ends
	rank       uint32 // of merging this token with the next one
}

func (t *Tokenizer) mergeLong(dst []int32, m *merger, piece string) []int32 {
	if cap(m.nodes) < len(piece) {
		m.nodes = make([]node, len(piece))
		m.heap = make([]uint64, 0, len(piece))
	}
	nodes := m.nodes[:len(piece)]
	m.heap = m.heap[:0]
	for i := range nodes {
		n := node{t.byteID[piece[i]], int32(i - 1), int32(i + 1), noRank}
		if i+1 < len(piece) {
			n.rank = t.pairs.twoBytes[int(piece[i])<<8|int(piece[i+1])]
		}
		if n.rank != noRank {
			m.heap = append(m.heap, uint64(n.rank)<<32|uint64(i))
		}
		nodes[i] = n
	}
	nodes[len(nodes)-1].next = -1
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.sift(i, m.heap[i])
	}
	for len(m.heap) > 0 {
		top := m.heap[0]
		i := int32(uint32(top))
		left := &nodes[i]
		if left.rank != uint32(top>>32) {
			m.pop() // an older pair of this node
			continue
		}
		right := &nodes[left.next]
		left.id, left.next, right.rank = t.pairs.merged[left.rank], right.next, noRank
		left.rank = noRank
		if left.next >= 0 {
			next := &nodes[left.next]
			next.prev = i
			left.rank = t.pairs.rank(left.id, next.id)
		}
		if left.rank != noRank {
			m.sift(0, uint64(left.rank)<<32|uint64(i)) // takes the place of the pair just merged
		} else {
			m.pop()
		}
		if left.prev >= 0 {
			prev := &nodes[left.prev]
			prev.rank = t.pairs.rank(prev.id, left.id)
			if prev.rank != noRank {
				m.push(uint64(prev.rank)<<32 | uint64(left.prev))
			}
		}
	}
	for i := int32(0); i >= 0; i = nodes[i].next {
		dst = append(dst, nodes[i].id)
	}
	return dst
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

func (m *merger) pop() {
	last := len(m.heap) - 1
	x := m.heap[last]
	m.heap = m.heap[:last]
	if last > 0 {
		m.sift(0, x)
	}
}

// sift puts x in the place of h[i] or below it.
func (m *merger) sift(i int, x uint64) {
	h := m.heap
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if x <= h[c] {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = x
}
