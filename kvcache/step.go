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
// Complete or Abort, one of which must be called. The zero Step is one that has ended.
type Step struct {
	m    *StepMemory
	turn uint64 // of the memory: once another step has begun in it, this one is over
}

// StepMemory is what a step is written to. The zero value is ready; it must not be
// copied. See [Pool.BeginIn].
type StepMemory struct {
	self      *StepMemory
	pool      *Pool
	turn      uint64
	beginning bool // with the pool unlocked now and then
	epoch     uint64
	arrays    Arrays
	leases    []*Lease
	at        []int32        // first position of each sequence
	seqs      map[uint64]int // nonce -> sequence
	refused   []Refusal

	// Filled anew by each method that uses them.
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
// Begin may scrub pages itself when too few are ready. The error is [ErrPoolClosed]
// once the pool closes.
func (p *Pool) Begin(entries []Entry) (Step, error) { return p.BeginIn(new(StepMemory), entries) }

// BeginIn is [Pool.Begin] in memory that was used before, so that a scheduler's turn
// allocates nothing. What the step before returned is overwritten, and that step is
// over: its methods find nothing and end nothing. Memory whose step is in flight, that
// another goroutine begins a step in, that belongs to another pool or was copied is an
// [*IntegrityError] of kind [ErrBinding], and stays as it is.
func (p *Pool) BeginIn(m *StepMemory, entries []Entry) (Step, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.self == nil {
		m.self, m.pool = m, p
	}
	if m.self != m || m.pool != p || m.beginning || p.core.flies(m.epoch) {
		return Step{}, p.flaw(nil, &IntegrityError{Kind: ErrBinding, Position: -1, Want: "memory of this pool whose step has ended", Have: fmt.Sprintf("memory of step %d", m.epoch)})
	}
	m.beginning = true
	defer func() { m.beginning = false }()
	for {
		m.reset()
		if p.closing {
			return Step{}, ErrPoolClosed
		}
		p.sift(entries, m)
		if len(m.feeds) == 0 {
			return Step{m, m.turn}, nil
		}
		p.begin = begin{m.feeds}
		fx, err := p.apply(&p.begin)
		p.begin = begin{}
		if err == nil {
			m.epoch = fx.epoch
			m.fill()
			return Step{m, m.turn}, nil
		}
		var short *shortError
		if !errors.As(err, &short) {
			m.reset()
			return Step{}, p.flaw(nil, err)
		}
		p.free(short.pages)
	}
}

// reset begins a turn with nothing in the memory, no lease and no token of the turns
// before either.
func (m *StepMemory) reset() {
	clear(m.leases)
	clear(m.refused)
	clear(m.seqs)
	clear(m.feeds[:cap(m.feeds)])
	a := &m.arrays
	clear(a.IDs[:cap(a.IDs)])
	m.turn++
	m.epoch = 0
	m.leases, m.at, m.refused, m.feeds = m.leases[:0], m.at[:0], m.refused[:0], m.feeds[:0]
	*a = Arrays{
		IDs: a.IDs[:0], Seq: a.Seq[:0], Pos: a.Pos[:0], QStart: a.QStart[:0], KVLen: a.KVLen[:0],
		Session: a.Session[:0], Tag: a.Tag[:0], Pages: a.Pages[:0], PageTag: a.PageTag[:0],
	}
}

// memory returns the memory of a step, or nil once another step has begun in it.
func (s Step) memory() *StepMemory {
	if s.m == nil || s.m.turn != s.turn {
		return nil
	}
	return s.m
}

// inFlight is memory for a step that has not ended. The pool is locked.
func (s Step) inFlight() (*StepMemory, error) {
	p, m := s.m.pool, s.memory()
	if m == nil || !p.core.flies(m.epoch) {
		return nil, p.flaw(nil, unknownStep(s.Epoch()))
	}
	return m, nil
}

// zeros returns n zeros, in the memory of list if that is large enough.
func zeros[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// sift separates the entries that can run. Growing one may requeue another, so
// all grow before any is judged.
func (p *Pool) sift(entries []Entry, m *StepMemory) {
	m.stuck = zeros(m.stuck, len(entries))
	if p.cfg.Admission == Clamp {
		for i, e := range entries {
			if e.Lease != nil && e.Lease.pool == p && e.Lease.live() != nil {
				p.grow = grow{e.Lease.id, len(e.Tokens)}
				_, err := p.apply(&p.grow)
				m.stuck[i] = err == errNoRoom
			}
		}
	}
	for i, e := range entries {
		err := p.may(e)
		if m.stuck[i] && e.Lease.live() != nil {
			err = p.exhausted(e.Lease)
		}
		if err != nil {
			m.refused = append(m.refused, Refusal{e.Lease, p.flaw(e.Lease, err)})
			continue
		}
		m.leases = append(m.leases, e.Lease)
		m.feeds = append(m.feeds, feed{e.Lease.id, int32(e.At), e.Tokens})
	}
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
func (m *StepMemory) fill() {
	c := m.pool.core
	a := &m.arrays
	for _, f := range m.feeds {
		a.Stride = max(a.Stride, int(c.lease(f.id).pinned[byStep]))
	}
	a.Pages, a.PageTag = zeros(a.Pages, len(m.feeds)*a.Stride), zeros(a.PageTag, len(m.feeds)*a.Stride)
	a.QStart = append(a.QStart, 0)
	if m.seqs == nil {
		m.seqs = make(map[uint64]int, len(m.feeds))
	}
	for q, f := range m.feeds {
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
		m.seqs[l.nonce] = q
		m.at = append(m.at, f.at)
	}
	clear(m.feeds) // the callers' tokens
}

// Epoch names the step; results echo it. 0: no entry could run, or the step is over
// and another has begun in its memory.
func (s Step) Epoch() uint64 {
	if m := s.memory(); m != nil {
		return m.epoch
	}
	return 0
}

// Arrays returns the snapshot. Read it, copy it, pad and permute the copy; do
// not change it. It is good until a step begins in the same memory.
func (s Step) Arrays() Arrays {
	m := s.memory()
	if m == nil {
		return Arrays{}
	}
	a := m.arrays
	return Arrays{
		IDs: slices.Clip(a.IDs), Seq: slices.Clip(a.Seq), Pos: slices.Clip(a.Pos),
		QStart: slices.Clip(a.QStart), KVLen: slices.Clip(a.KVLen), Session: slices.Clip(a.Session), Tag: slices.Clip(a.Tag),
		Stride: a.Stride, Pages: slices.Clip(a.Pages), PageTag: slices.Clip(a.PageTag),
	}
}

// Leases returns the requests in the order of the snapshot's sequences.
func (s Step) Leases() []*Lease {
	if m := s.memory(); m != nil {
		return m.leases
	}
	return nil
}

// Refused returns the entries that are not in the step.
func (s Step) Refused() []Refusal {
	if m := s.memory(); m != nil {
		return m.refused
	}
	return nil
}

// Complete ends the step: the marks rise by the rows that arrived, pages that
// this fills are sealed, everything is unpinned. Per result it returns nil if
// the output may be delivered; ErrEnded or the terminal error if the request
// ended meanwhile; an [*IntegrityError] if the echo is not that of a sequence
// of this step, or the step has ended. A sequence without a result gains no row.
// The list is good until a step begins in the same memory.
func (s Step) Complete(results []Result) []error {
	if s.m == nil {
		return slices.Repeat([]error{unknownStep(0)}, len(results))
	}
	p := s.m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := s.inFlight()
	if err != nil {
		return slices.Repeat([]error{err}, len(results))
	}
	m.arrivals = m.arrivals[:0]
	for _, r := range results {
		a := arrival{none, r.Tag, r.Session, r.Epoch, int32(max(min(r.Rows, maxContext), -1))}
		if q, ok := m.seqs[r.Tag]; ok {
			a.slot = m.leases[q].id.slot
		}
		m.arrivals = append(m.arrivals, a)
	}
	p.complete = complete{m.epoch, m.arrivals}
	fx, err := p.apply(&p.complete)
	m.outcomes = zeros(m.outcomes, len(results))
	for i := range m.outcomes {
		if err != nil {
			m.outcomes[i] = p.flaw(nil, err)
			continue
		}
		var l *Lease
		if q, ok := m.seqs[results[i].Tag]; ok {
			l = m.leases[q]
		}
		if m.outcomes[i] = p.flaw(l, fx.outcomes[i]); m.outcomes[i] == ErrEnded {
			m.outcomes[i] = l.ended()
		}
	}
	p.pump()
	return m.outcomes
}

// Abort ends the step without raising any mark: what it wrote, nobody reads.
// After Complete it does nothing, whatever has begun since.
func (s Step) Abort() {
	if s.m == nil {
		return
	}
	p := s.m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := s.memory(); m != nil {
		p.apply(abort{m.epoch}) // refused if it has ended
		p.pump()
	}
}
