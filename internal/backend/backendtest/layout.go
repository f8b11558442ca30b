package backendtest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// key names a row by what it computes: a position of a sequence. The content of
// a row follows from its key alone, so the same key must give the same bits in
// whatever batch, chunk or page it lies.
type key struct{ seq, pos int }

// span is a run of rows of one sequence and the padding that follows it.
type span struct{ seq, from, to, pad int }

// layout is the shape of a step.
type layout struct {
	name  string
	spans []span
	tail  int  // padding rows after the last sequence
	noOut bool // no row's logits are wanted
}

// maxRows bounds the rows of every layout; guardRows lie after them in every
// buffer and belong to no step. maxSeqs bounds the sequences.
const (
	maxRows   = 72
	guardRows = 3
	maxSeqs   = 4
)

var (
	single = layout{name: "one row", spans: []span{{0, 0, 1, 0}}}
	decode = layout{name: "decode", spans: []span{{2, 21, 22, 0}}}
	// ragged has a prefill from nothing, a decoding row, a chunk that crosses
	// pages and an empty sequence, with padding in the middle and at the end.
	ragged = layout{name: "ragged", spans: []span{{1, 0, 7, 1}, {0, 12, 13, 0}, {3, 0, 0, 1}, {2, 5, 22, 2}}, tail: 3}
	// plain has neither padding nor odd lengths: where a fast path would be taken.
	plain = layout{name: "plain", spans: []span{{0, 0, 16, 0}, {1, 16, 32, 0}}}
)

// crowd has more rows than a tile of rows holds.
var crowd = layout{name: "crowd", spans: []span{{3, 0, 23, 1}, {1, 3, 20, 0}, {2, 9, 10, 1}, {0, 0, 22, 0}}, tail: 2}

// standard are the layouts that every operation is compared on.
var standard = []layout{single, decode, ragged, plain, crowd}

// rows lists the key of every row; a padding row has none.
func (l layout) rows() []*key {
	var out []*key
	for _, s := range l.spans {
		for pos := s.from; pos < s.to; pos++ {
			out = append(out, &key{s.seq, pos})
		}
		out = append(out, make([]*key, s.pad)...)
	}
	return append(out, make([]*key, l.tail)...)
}

// keys lists the rows that are not padding.
func (l layout) keys() []key {
	var out []key
	for _, k := range l.rows() {
		if k != nil {
			out = append(out, *k)
		}
	}
	return out
}

// outKeys lists the keys whose logits are wanted, in the order of the out rows:
// backwards, so that an out row is not the row of the same number.
func (l layout) outKeys() []key {
	if l.noOut {
		return nil
	}
	out := l.keys()
	slices.Reverse(out)
	return out
}

// alone is the layout that computes one row by itself.
func alone(k key) layout {
	return layout{name: "alone", spans: []span{{k.seq, k.pos, k.pos + 1, 0}}}
}

// tagOf is the owner's tag of a sequence; foreign marks pages of nobody in the
// step.
func tagOf(seq int) uint64 { return 1000 + uint64(seq) }

const foreign = 0xdead

// pageTable gives every sequence its own pages: scattered over the memory, and
// for sequence 0 in descending order. The shares leave some pages to nobody.
func pageTable(pages, seed int) [maxSeqs][]int32 {
	perm := rand.New(rand.NewPCG(uint64(seed), 77)).Perm(pages)
	share := pages / (maxSeqs + 1)
	var table [maxSeqs][]int32
	for s := range table {
		for _, p := range perm[s*share : (s+1)*share] {
			table[s] = append(table[s], int32(p))
		}
	}
	slices.Sort(table[0])
	slices.Reverse(table[0])
	return table
}

// step builds the step of a layout. Padding rows carry ids and positions that
// no operation may follow, and so do page table entries past a sequence's end.
func (l layout) step(table [maxSeqs][]int32, pageSize int, id func(key) int32) *backend.Step {
	s := &backend.Step{Epoch: 42, QStart: []int32{0}}
	for i, sp := range l.spans {
		for pos := sp.from; pos < sp.to; pos++ {
			s.IDs = append(s.IDs, id(key{sp.seq, pos}))
			s.Seq = append(s.Seq, int32(i))
			s.Pos = append(s.Pos, int32(pos))
		}
		pad(s, sp.pad)
		s.QStart = append(s.QStart, int32(len(s.IDs)))
		s.KVLen = append(s.KVLen, int32(sp.to))
		s.Session = append(s.Session, 7000+uint64(sp.seq))
		s.Tag = append(s.Tag, tagOf(sp.seq))
		s.Stride = max(s.Stride, (sp.to+pageSize-1)/pageSize+1)
	}
	pad(s, l.tail)
	for _, sp := range l.spans {
		for i := range s.Stride {
			page := int32(-1)
			if i*pageSize < sp.to {
				page = table[sp.seq][i]
			}
			s.Pages = append(s.Pages, page)
			s.PageTag = append(s.PageTag, tagOf(sp.seq))
		}
	}
	if l.noOut {
		return s
	}
	for r := len(s.Seq) - 1; r >= 0; r-- {
		if s.Seq[r] >= 0 {
			s.Out = append(s.Out, int32(r))
		}
	}
	return s
}

func pad(s *backend.Step, n int) {
	for i := range n {
		s.IDs = append(s.IDs, math.MinInt32)
		s.Seq = append(s.Seq, -1)
		s.Pos = append(s.Pos, []int32{math.MaxInt32, -9}[i%2])
	}
}
