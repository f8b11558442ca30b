package tokenizer

import (
	"math/bits"
	"math/rand/v2"
)

// Both tables are open-addressed, at most half full, and hash by multiplication
// with a random odd number, so that no file can be written to make them slow.

// A pieceTable maps the bytes of a token to its id.
type pieceTable struct {
	entries []pieceEntry
	mul     uint64
	shift   uint
	vocab   *vocab // holds the bytes of tokens longer than 8
}

// key is the token itself if it has at most 8 bytes, else a hash of it. n is its
// length, 0 in an empty entry.
type pieceEntry struct {
	key uint64
	n   uint32
	id  int32
}

func newPieceTable(v *vocab, size int) pieceTable {
	width := tableWidth(size)
	return pieceTable{make([]pieceEntry, 1<<width), randomOdd(), 64 - width, v}
}

// find returns the id of the token with the bytes s[p:q], or -1.
func (t *pieceTable) find(s string, p, q int) int32 {
	n := uint32(q - p)
	key := t.key(s, p, q)
	for i := (key * t.mul) >> t.shift; ; i = (i + 1) & uint64(len(t.entries)-1) {
		e := &t.entries[i]
		if e.n == 0 {
			return -1
		}
		if e.key == key && e.n == n && (n <= 8 || string(t.vocab.token(e.id)) == s[p:q]) {
			return e.id
		}
	}
}

// add enters token, which is not empty and not in the table.
func (t *pieceTable) add(token string, id int32) {
	key := t.key(token, 0, len(token))
	i := (key * t.mul) >> t.shift
	for t.entries[i].n != 0 {
		i = (i + 1) & uint64(len(t.entries)-1)
	}
	t.entries[i] = pieceEntry{key, uint32(len(token)), id}
}

func (t *pieceTable) key(s string, p, q int) uint64 {
	n := q - p
	if n <= 8 {
		if p+8 <= len(s) {
			return load8(s, p) & (^uint64(0) >> (64 - 8*uint(n)))
		}
		var key uint64
		for i := q - 1; i >= p; i-- {
			key = key<<8 | uint64(s[i])
		}
		return key
	}
	h := uint64(n)
	for ; p+8 < q; p += 8 {
		h = bits.RotateLeft64((h^load8(s, p))*t.mul, 29)
	}
	return (h ^ load8(s, q-8)) * t.mul
}

func load8(s string, p int) uint64 {
	s = s[p : p+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// A pairTable maps two neighbouring tokens to the merge they have.
type pairTable struct {
	entries []pairEntry
	mul     uint64
	shift   uint
}

// A pair is a merge before it has a rank.
type pair struct{ left, right, id int32 }

type pairEntry struct {
	key  uint64 // noPair in an empty entry
	rank uint32 // the lower, the earlier it is merged
	id   int32  // the token that the merge makes
}

const (
	noPair = ^uint64(0)
	noRank = ^uint32(0) // two tokens that do not merge
)

func newPairTable(size int) pairTable {
	width := tableWidth(size)
	t := pairTable{make([]pairEntry, 1<<width), randomOdd(), 64 - width}
	for i := range t.entries {
		t.entries[i].key = noPair
	}
	return t
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// find returns the rank and the result of merging left and right; the rank is
// noRank if they do not merge.
func (t *pairTable) find(left, right int32) (rank uint32, id int32) {
	key := pairKey(left, right)
	for i := (key * t.mul) >> t.shift; ; i = (i + 1) & uint64(len(t.entries)-1) {
		e := &t.entries[i]
		if e.key == key {
			return e.rank, e.id
		}
		if e.key == noPair {
			return noRank, -1
		}
	}
}

// add enters a merge and reports whether the pair was new.
func (t *pairTable) add(left, right int32, rank uint32, id int32) bool {
	key := pairKey(left, right)
	i := (key * t.mul) >> t.shift
	for t.entries[i].key != noPair {
		if t.entries[i].key == key {
			return false
		}
		i = (i + 1) & uint64(len(t.entries)-1)
	}
	t.entries[i] = pairEntry{key, rank, id}
	return true
}

// tableWidth returns the logarithm of a table length that size entries fill at
// most half.
func tableWidth(size int) uint { return uint(bits.Len(uint(2*size + 2))) }

func randomOdd() uint64 { return rand.Uint64() | 1 }
