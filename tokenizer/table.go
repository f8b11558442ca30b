package tokenizer

import (
	"math/bits"
	"math/rand/v2"
)

// Both tables are open-addressed, at most two thirds full, and hash by
// multiplication with a random odd number, so that no file can be written to make
// them slow.

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

// A pairTable maps two neighbouring tokens to the rank of the merge they have:
// the lower, the earlier it is done.
type pairTable struct {
	// entries are left<<43 | right<<22 | rank, so that eight share a cache line;
	// noPair if empty.
	entries []uint64
	mul     uint64
	shift   uint
	// seen has a bit for each of eight times as many hash values: most pairs of
	// tokens do not merge, and most of those are told here, in less memory.
	seen []uint64
	// twoBytes has the rank for two single bytes, first<<8 | second. Every piece
	// that is not a token begins with these.
	twoBytes [1 << 16]uint32
	merged   []int32 // rank -> the token that the merge makes
}

const (
	idBits   = 21 // maxIDs is 1 << idBits
	rankBits = 64 - 2*idBits
	maxRanks = 1<<rankBits - 1 // leaves the value noRank free
	noRank   = maxRanks        // of two tokens that do not merge
	noPair   = ^uint64(0)
)

// A mergeRule says that left and right merge into id. The lower its rank, the
// earlier it is applied.
type mergeRule struct {
	left, right, id int32
	rank            uint32
}

// newPairTable enters the rules. It returns the index of the first rule whose
// pair had a rule already, or -1.
func newPairTable(rules []mergeRule, byteID *[256]int32) (table *pairTable, double int) {
	width := tableWidth(len(rules))
	t := &pairTable{entries: make([]uint64, 1<<width), mul: randomOdd(), shift: 64 - width, seen: make([]uint64, max(1, 1<<width>>3))}
	for i := range t.entries {
		t.entries[i] = noPair
	}
	ranks := 0
	for _, r := range rules {
		ranks = max(ranks, int(r.rank)+1)
	}
	t.merged = make([]int32, ranks)
	for i, r := range rules {
		if t.rank(r.left, r.right) != noRank {
			return nil, i
		}
		key := pairKey(r.left, r.right)
		h := key * t.mul
		slot := h >> t.shift
		bit := h >> (t.shift - 3)
		t.seen[bit>>6] |= 1 << (bit & 63)
		for t.entries[slot] != noPair {
			slot = (slot + 1) & uint64(len(t.entries)-1)
		}
		t.entries[slot] = key<<rankBits | uint64(r.rank)
		t.merged[r.rank] = r.id
	}
	for pair := range t.twoBytes {
		t.twoBytes[pair] = t.rank(byteID[pair>>8], byteID[pair&0xFF])
	}
	return t, -1
}

func pairKey(left, right int32) uint64 { return uint64(left)<<idBits | uint64(right) }

// rank returns the rank of merging left and right, noRank if they do not merge.
func (t *pairTable) rank(left, right int32) uint32 {
	key := pairKey(left, right)
	h := key * t.mul
	if bit := h >> (t.shift - 3); t.seen[bit>>6]&(1<<(bit&63)) == 0 {
		return noRank
	}
	for i := h >> t.shift; ; i = (i + 1) & uint64(len(t.entries)-1) {
		e := t.entries[i]
		if e>>rankBits == key {
			return uint32(e & noRank)
		}
		if e == noPair {
			return noRank
		}
	}
}

// tableWidth returns the logarithm of a table length that size entries fill at
// most two thirds.
func tableWidth(size int) uint { return uint(bits.Len(uint(size + size/2 + 1))) }

func randomOdd() uint64 { return rand.Uint64() | 1 }
