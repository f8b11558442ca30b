package kvcache

import (
	"errors"
	"fmt"
	"slices"
)

// Entry is one sequence of a step: Tokens at the positions from At on. At must
// be the request's mark: the caller counts too, and the two must agree.
type Entry struct {
	Lease  *Lease
	At     int
	Tokens []int32
}

// Refusal is an entry that is not in the step.
type Refusal struct {
	Lease *Lease
	// Err is the error of the terminal cause, or ErrEnded if it has none;
	// ErrRequeued, see [Lease.Readmit]; an *ExhaustedError under Clamp while
	// other steps hold the pages it needs: enter it again after them; or the
	// *IntegrityError or *ContextError of an entry that must not run.
	Err error
}

// Arrays is a step as a backend uploads it, in the layout of the device
// contract: R rows, S sequences, page tables of Stride pages each.
type Arrays struct {
	IDs []int32 // [R] tokens
	Seq []int32 // [R] sequence of the row, -1: padding
	Pos []int32 // [R] position of the row

	QStart  []int32  // [S+1] first row of each sequence
	KVLen   []int32  // [S] positions that exist once the rows are written
	Session []uint64 // [S] session; 0: padding
	Tag     []uint64 // [S] lease nonce: also the tag of every page that the sequence may write

	Stride  int
	Pages   []int32  // [S, Stride] position p lies on page p/PageSize; NullPage beyond
	PageTag []uint64 // [S, Stride] tag that the page's device sidecar must hold; 0 for NullPage
}

// Step is a step in flight. It pins every page that it reads or writes until
// Complete or Abort, one of which must be called.
type Step struct {
	pool    *Pool
	epoch   uint64
	arrays  Arrays
	leases  []*Lease
	at      []int32        // first position of each sequence
	seqs    map[uint64]int // nonce -> sequence
	refused []Refusal
	scratch stepScratch
}

// stepScratch is memory that is filled anew by each method that uses it.
type stepScratch struct {
	feeds    []feed
	stuck    []bool // by entry
	seen     []bool // by sequence
	arrivals []arrival
	outcomes []error
}

// Result is what a backend returns for one sequence.
type Result struct {
	Session uint64 // echo
	Tag     uint64 // echo: lease nonce
	Epoch   uint64 // echo: of the step
	Rows    int    // rows that were written and count; 0 if the sequence failed
}

// Begin checks owner, generation and mark of every page of every entry, leases
// the pages that the rows need (scrubbed, then tagged), pins them all and
// returns the snapshot to upload. Entries that cannot run are in Refused, the
// others run without them. A request is in at most one step at a time.
//
// Begin may scrub pages itself when too few are ready.
func (p *Pool) Begin(entries []Entry) (*Step, error) {
	s := new(Step)
	if err := p.BeginIn(s, entries); err != nil {
		return nil, err
	}
	return s, nil
}

// BeginIn is [Pool.Begin] in the memory of s, which is new or has ended, so that a
// scheduler with one Step allocates nothing. All that s returned before is
// overwritten. A step in flight, or of another pool, is an [*IntegrityError].
func (p *Pool) BeginIn(s *Step, entries []Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.pool != nil && (s.pool != p || p.core.flies(s.epoch)) {
		return p.flaw(nil, &IntegrityError{Kind: ErrBinding, Position: -1, Want: "a step of this pool that has ended", Have: fmt.Sprintf("step %d", s.epoch)})
	}
	for {
		if p.closing {
			return ErrPoolClosed
		}
		s.reset(p)
		p.sift(entries, s)
		if len(s.scratch.feeds) == 0 {
			return nil
		}
		p.begin = begin{s.scratch.feeds}
		fx, err := p.apply(&p.begin)
		p.begin = begin{}
		if err == nil {
			s.epoch = fx.epoch
			s.fill(s.scratch.feeds)
			return nil
		}
		var short *shortError
		if !errors.As(err, &short) {
			s.reset(p)
			return p.flaw(nil, err)
		}
		p.free(short.pages)
	}
}

// reset empties a step and keeps its memory, but no lease.
func (s *Step) reset(p *Pool) {
	clear(s.leases)
	clear(s.refused)
	clear(s.seqs)
	a := &s.arrays
	*s = Step{
		pool: p, leases: s.leases[:0], at: s.at[:0], seqs: s.seqs, refused: s.refused[:0], scratch: s.scratch,
		arrays: Arrays{
			IDs: a.IDs[:0], Seq: a.Seq[:0], Pos: a.Pos[:0], QStart: a.QStart[:0], KVLen: a.KVLen[:0],
			Session: a.Session[:0], Tag: a.Tag[:0], Pages: a.Pages[:0], PageTag: a.PageTag[:0],
		},
	}
}

// zeros returns n zeros, in the memory of list if that is large enough.
func zeros[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// sift separates the entries that can run. Growing one may requeue another, so
// all grow before any is judged.
func (p *Pool) sift(entries []Entry, s *Step) {
	stuck := zeros(s.scratch.stuck, len(entries))
	feeds := s.scratch.feeds[:0]
	if p.cfg.Admission == Clamp {
		for i, e := range entries {
			if e.Lease != nil && e.Lease.pool == p && e.Lease.live() != nil {
				p.grow = grow{e.Lease.id, len(e.Tokens)}
				_, err := p.apply(&p.grow)
				stuck[i] = err == errNoRoom
			}
		}
	}
	for i, e := range entries {
		err := p.may(e)
		if stuck[i] && e.Lease.live() != nil {
			err = p.exhausted(e.Lease)
		}
		if err != nil {
			s.refused = append(s.refused, Refusal{e.Lease, p.flaw(e.Lease, err)})
			continue
		}
		s.leases = append(s.leases, e.Lease)
		feeds = append(feeds, feed{e.Lease.id, int32(e.At), e.Tokens})
	}
	s.scratch.feeds, s.scratch.stuck = feeds, stuck
}

// may checks an entry, above all that the tokens of the prompt are the ones
// that were admitted: a cut or swapped prompt never runs.
func (p *Pool) may(e Entry) error {
	l := e.Lease
	if l == nil || l.pool != p {
		return &IntegrityError{Kind: ErrBinding, Position: e.At, Want: "a request of this pool", Have: "one of another"}
	}
	if l.cause != CauseNone {
		return l.ended()
	}
	if e.At < 0 || e.At > maxContext {
		return &IntegrityError{Kind: ErrUnwritten, Position: l.markOr0(), Want: "rows from the mark on", Have: fmt.Sprintf("rows from %d on", e.At)}
	}
	if err := p.core.may(feed{l.id, int32(e.At), e.Tokens}); err != nil {
		return err
	}
	if n := min(len(e.Tokens), len(l.known)-e.At); n > 0 && !slices.Equal(e.Tokens[:n], l.known[e.At:e.At+n]) {
		return &IntegrityError{Kind: ErrBinding, Position: e.At, Want: "the tokens that were admitted", Have: "others"}
	}
	return nil
}

func (l *Lease) markOr0() int {
	if c := l.live(); c != nil {
		return int(c.valid)
	}
	return 0
}

// fill builds the arrays.
func (s *Step) fill(feeds []feed) {
	c := s.pool.core
	a := &s.arrays
	for _, f := range feeds {
		a.Stride = max(a.Stride, int(c.lease(f.id).pinned[byStep]))
	}
	a.Pages, a.PageTag = zeros(a.Pages, len(feeds)*a.Stride), zeros(a.PageTag, len(feeds)*a.Stride)
	a.QStart = append(a.QStart, 0)
	if s.seqs == nil {
		s.seqs = make(map[uint64]int, len(feeds))
	}
	for q, f := range feeds {
		l := c.lease(f.id)
		for i, t := range f.tokens {
			a.IDs, a.Seq, a.Pos = append(a.IDs, t), append(a.Seq, int32(q)), append(a.Pos, f.at+int32(i))
		}
		a.QStart = append(a.QStart, int32(len(a.IDs)))
		a.KVLen = append(a.KVLen, f.at+int32(len(f.tokens)))
		a.Session = append(a.Session, l.session)
		a.Tag = append(a.Tag, l.nonce)
		for i, r := range l.table[:l.pinned[byStep]] {
			a.Pages[q*a.Stride+i] = r.page
			a.PageTag[q*a.Stride+i] = c.s.pages[r.page].tag
		}
		s.seqs[l.nonce] = q
		s.at = append(s.at, f.at)
	}
}

// Epoch names the step; results echo it. 0: no entry could run.
func (s *Step) Epoch() uint64 { return s.epoch }

// Arrays returns the snapshot. Read it, copy it, pad and permute the copy; do
// not change it. It is good until the step begins again.
func (s *Step) Arrays() Arrays { return s.arrays }

// Leases returns the requests in the order of the snapshot's sequences.
func (s *Step) Leases() []*Lease { return s.leases }

// Refused returns the entries that are not in the step.
func (s *Step) Refused() []Refusal { return s.refused }

// Complete ends the step: the marks rise by the rows that arrived, pages that
// this fills are sealed, everything is unpinned. Per result it returns nil if
// the output may be delivered; ErrEnded or the terminal error if the request
// ended meanwhile; an [*IntegrityError] if the echo is not that of a sequence
// of this step. A sequence without a result gains no row. The list is good until
// the step begins again.
func (s *Step) Complete(results []Result) []error {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	arrivals := s.scratch.arrivals[:0]
	for _, r := range results {
		a := arrival{none, r.Tag, r.Session, r.Epoch, int32(max(min(r.Rows, maxContext), -1))}
		if q, ok := s.seqs[r.Tag]; ok {
			a.slot = s.leases[q].id.slot
		}
		arrivals = append(arrivals, a)
	}
	p.complete = complete{s.epoch, arrivals}
	fx, err := p.apply(&p.complete)
	outcomes := zeros(s.scratch.outcomes, len(results))
	s.scratch.arrivals, s.scratch.outcomes = arrivals, outcomes
	for i := range outcomes {
		if err != nil {
			outcomes[i] = p.flaw(nil, err)
			continue
		}
		var l *Lease
		if q, ok := s.seqs[results[i].Tag]; ok {
			l = s.leases[q]
		}
		if outcomes[i] = p.flaw(l, fx.outcomes[i]); outcomes[i] == ErrEnded {
			outcomes[i] = l.ended()
		}
	}
	p.pump()
	return outcomes
}

// Abort ends the step without raising any mark: what it wrote, nobody reads.
// After Complete it does nothing.
func (s *Step) Abort() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(abort{s.epoch}) // refused if it has ended
	p.pump()
}
