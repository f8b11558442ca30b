package kvcache

import (
	"errors"
	"fmt"
	"slices"
)

// peers is a small world of two cores that hand prompts to each other through
// one copy engine, with memory. Pool 0 computes prompts, pool 1 answers.
//
// Memory is kept as cells: what a row says about itself. A step writes and
// reads at its very end, the copy engine reads at the very end too, whatever
// happened to request and page since they began: the worst moment.
type peers struct {
	cores  [2]*core
	cells  [2][]cell
	snaps  [2][]snap // by slot: what a step in flight was given
	deals  Ticket    // that pool 0 has accepted
	source leaseID   // and the request it computes it as
	engine engine
	ready  Ticket // a manifest for it has been sent
}

type snap struct {
	table []ref
	at    int32 // its first position
}

// engine copies pages from pool 0 to pool 1, one by one. It may write what it
// wrote last again, at any time.
type engine struct {
	busy   bool
	ticket Ticket
	from   []ref // pages of pool 0
	next   int
	last   lateCopy
}

type lateCopy struct {
	ticket Ticket
	ref    ref
	rows   int32
	data   [2]cell
}

// cell is a row of the tag model: scope, position and token of its writer.
type cell struct{ scope, pos, token int8 }

var (
	scrubbedCell = cell{-1, 0, 0}
	junkCell     = cell{-2, 0, 0} // of a page that was given back: nobody's any more
)

// speaker is a request of the world.
type speaker struct {
	scope  Scope
	prompt []int32
	output int
	remote bool
}

const peerPageSize = 2

func newPeers(a Admission) *peers {
	w := &peers{}
	for i := range w.cores {
		c := newCore(Config{Pages: 5, PageSize: peerPageSize, Context: 8, Admission: a}, 0)
		c.hash = func([]byte) Key { return Key{} } // every key collides with every other
		w.cores[i] = c
		w.cells[i] = slices.Repeat([]cell{scrubbedCell}, 5*peerPageSize)
		w.snaps[i] = make([]snap, 3)
	}
	for i, c := range w.cores {
		if _, err := c.apply(peer{w.cores[1-i].limits().Context}); err != nil {
			panic(err)
		}
	}
	return w
}

// clone copies what a move in a pool can change; -1: in either.
func (w *peers) clone(pool int8) *peers {
	o := *w
	for i, c := range w.cores {
		if pool >= 0 && int(pool) != i {
			continue
		}
		k := *c
		k.s = c.s.clone()
		o.cores[i] = &k
		o.cells[i] = slices.Clone(w.cells[i])
		o.snaps[i] = slices.Clone(w.snaps[i])
	}
	return &o
}

// spoken is what a request has said, and will say: the length of its prompt
// tells which. The scopes say the same.
func spoken(l *lease) []int32 {
	if l.prompt == 2 {
		return []int32{1, 4, 3, 5, 5, 5, 5, 5}
	}
	return []int32{1, 2, 3, 5, 5, 5, 5, 5}
}

// legal is the cell that a request must find at a position.
func legal(l *lease, pos int32) cell {
	return cell{int8(l.scope.Session), int8(pos), int8(spoken(l)[pos])}
}

func (w *peers) at(pool int, r ref, pos int32) *cell {
	return &w.cells[pool][r.page*peerPageSize+pos%peerPageSize]
}

// move is an event of the world: one of a core's, or what the engine does.
type move struct {
	pool int8                          // of e, else -1
	do   func(*peers) (effects, error) // nil: e
	e    event
	name string
}

// apply makes a move. Breaches of what only the world can see come as *breach.
func (w *peers) apply(m move) (effects, error) {
	if m.do != nil {
		return m.do(w)
	}
	c := w.cores[m.pool]
	switch e := m.e.(type) {
	case begin:
		fx, err := c.apply(e)
		if err == nil {
			for _, f := range e.entries {
				l := c.lease(f.id)
				w.snaps[m.pool][f.id.slot] = snap{slices.Clone(l.table[:l.pinned[byStep]]), f.at}
			}
		}
		return fx, err
	case complete:
		if err := w.run(int(m.pool), e.epoch); err != nil {
			return effects{}, err
		}
	case abort:
		if err := w.run(int(m.pool), e.epoch); err != nil {
			return effects{}, err
		}
	case scrubbed:
		for i := range int32(peerPageSize) {
			*w.at(int(m.pool), e.ref, i) = scrubbedCell
		}
	}
	return c.apply(m.e)
}

// run is the backend at the end of a step: it writes all rows, also those that
// will not count and those of a request that has ended, and reads everything
// that attention may see.
func (w *peers) run(pool int, epoch uint64) error {
	c := w.cores[pool]
	for slot := range c.s.leases {
		l := &c.s.leases[slot]
		if l.step != epoch || epoch == 0 {
			continue
		}
		given := w.snaps[pool][slot]
		for _, r := range given.table {
			pg := &c.s.pages[r.page]
			if pg.gen != r.gen || pg.pins == 0 || pg.state != pageWritable && pg.state != pageSealed && pg.state != pageQuarantined {
				return &breach{"QUIET", fmt.Sprintf("a step of request %d holds page %d, which is in state %d", l.request, r.page, pg.state)}
			}
		}
		for j := range l.pending {
			pos := given.at + int32(j)
			r := given.table[pos/peerPageSize]
			pg := &c.s.pages[r.page]
			if own := pg.state == pageWritable && pg.owner == int32(slot); !own && pg.state != pageQuarantined {
				return &breach{"OWN", fmt.Sprintf("request %d writes position %d on page %d in state %d of owner %d", l.request, pos, r.page, pg.state, pg.owner)}
			}
			*w.at(pool, r, pos) = legal(l, pos)
		}
		for pos := range given.at + int32(len(l.pending)) {
			if have := *w.at(pool, given.table[pos/peerPageSize], pos); have != legal(l, pos) {
				return &breach{"LEAK", fmt.Sprintf("request %d reads %v at %d, its own is %v", l.request, have, pos, legal(l, pos))}
			}
		}
	}
	return nil
}

// accept lets pool 0 take in the prompt of a ticket.
func (w *peers) accept(t Ticket, l *lease) (effects, error) {
	c := w.cores[0]
	fx, err := c.apply(submit{session: 1, scope: l.scope, prompt: t.tokens, output: 1})
	if err != nil || fx.refusal != nil {
		return fx, err
	}
	w.deals, w.source = t, fx.id
	return c.apply(admit{fx.id, spoken(l)[:t.tokens]})
}

// start lets the engine begin to copy what pool 0 has computed.
func (w *peers) start() (effects, error) {
	c := w.cores[0]
	fx, err := c.apply(copying{w.source})
	if err == nil {
		l := c.lease(w.source)
		w.engine.busy, w.engine.ticket, w.engine.next = true, w.deals, 0
		w.engine.from = slices.Clone(l.table[:l.pinned[byCopy]])
	}
	return fx, err
}

// deliver copies one page. If pool 1 refuses it, the engine gives up and says
// that it writes no more.
func (w *peers) deliver() (effects, error) {
	g := &w.engine
	r := g.from[g.next]
	late := lateCopy{g.ticket, g.ticket.pages[g.next], int32(min(peerPageSize, g.ticket.tokens-g.next*peerPageSize)), [2]cell{*w.at(0, r, 0), *w.at(0, r, 1)}}
	g.last = late
	g.next++
	fx, err := w.write(late)
	var broken *breach
	if errors.As(err, &broken) {
		return fx, err
	}
	if err != nil {
		g.busy, g.from = false, nil
		w.cores[0].apply(copied{w.source})
		w.cores[1].apply(quiesced{late.ticket.lease, late.ticket.nonce})
		return effects{}, nil
	}
	return fx, nil
}

func (w *peers) write(late lateCopy) (effects, error) {
	fx, err := w.cores[1].apply(write{late.ticket.lease, late.ticket.nonce, late.ref, late.rows})
	if l := w.cores[1].lease(late.ticket.lease); err == nil && (l == nil || l.phase != phaseLive || l.ticket != late.ticket.nonce) {
		return fx, &breach{"QUIET", "a write went through that nobody waits for"}
	}
	if err == nil {
		for i, v := range late.data {
			*w.at(1, ref{page: fx.imported}, int32(i)) = v
		}
	}
	return fx, err
}

// finish ends a copy: the manifest is on its way.
func (w *peers) finish() (effects, error) {
	w.engine.busy, w.engine.from, w.ready = false, nil, w.engine.ticket
	return w.cores[0].apply(copied{w.source})
}

// tidy forgets what no longer means anything, so that states stay few.
func (w *peers) tidy() {
	for i, c := range w.cores {
		for p := range c.s.pages {
			if pg := &c.s.pages[p]; pg.state == pageDirty || pg.state == pageScrubbing {
				for j := range peerPageSize {
					if k := &w.cells[i][p*peerPageSize+j]; *k != scrubbedCell {
						*k = junkCell
					}
				}
			}
		}
		for slot := range w.snaps[i] {
			if slot >= len(c.s.leases) || c.s.leases[slot].step == 0 {
				w.snaps[i][slot] = snap{}
			}
		}
	}
	if w.cores[0].lease(w.source) == nil {
		w.source, w.deals = leaseID{}, Ticket{}
	}
	if l := w.cores[1].lease(w.ready.lease); l == nil || l.ticket != w.ready.nonce {
		w.ready = Ticket{}
	}
}

// check looks at what the cores cannot see: that every row below a mark is the
// reader's own, that what is free is empty, and that a table in flight stays.
func (w *peers) check() error {
	for i, c := range w.cores {
		if err := c.check(); err != nil {
			return err
		}
		for slot := range c.s.leases {
			l := &c.s.leases[slot]
			if l.phase == phaseLive {
				for pos := range l.valid {
					if have := *w.at(i, l.table[pos/peerPageSize], pos); have != legal(l, pos) {
						return &breach{"LEAK", fmt.Sprintf("request %d may read %v at %d, its own is %v", l.request, have, pos, legal(l, pos))}
					}
				}
			}
			if l.step != 0 && !slices.Equal(w.snaps[i][slot].table, l.table[:min(int(l.pinned[byStep]), len(l.table))]) {
				return &breach{"BIND", fmt.Sprintf("request %d: the table of a step in flight changed", l.request)}
			}
		}
		for p := range c.s.pages {
			if pg := &c.s.pages[p]; pg.state == pageFree || pg.state == pageNull {
				for j := range peerPageSize {
					if w.cells[i][p*peerPageSize+j] != scrubbedCell {
						return &breach{"DIRTY", fmt.Sprintf("page %d is free and holds a row", p)}
					}
				}
			}
		}
	}
	if g := &w.engine; g.busy {
		l := w.cores[0].lease(w.source)
		if l == nil || !slices.Equal(g.from, l.table[:min(int(l.pinned[byCopy]), len(l.table))]) {
			return &breach{"QUIET", "pages of a copy under way are nobody's"}
		}
	}
	return nil
}

// trace checks what a single state does not show, or what its encoding leaves
// out.
func (w *peers) trace(before *peers, m move, fx effects) error {
	if err := w.answered(before, m, fx); err != nil {
		return err
	}
	for i, c := range w.cores {
		was := before.cores[i]
		for slot := range c.s.leases {
			if slot >= len(was.s.leases) {
				continue
			}
			a, b := &was.s.leases[slot], &c.s.leases[slot]
			same := a.phase != phaseVacant && a.request == b.request
			if n := b.computed + b.reused + b.received; b.phase == phaseLive && !b.requeued && n != b.valid {
				return &breach{"LOUD", fmt.Sprintf("request %d: %d tokens accounted, the mark stands at %d", b.request, n, b.valid)}
			}
			if same && a.cause != CauseNone && b.cause != a.cause {
				return &breach{"TERM", fmt.Sprintf("request %d: %v became %v", a.request, a.cause, b.cause)}
			}
			if same && a.prompt != b.prompt {
				return &breach{"LOUD", fmt.Sprintf("request %d: a prompt of %d became one of %d", a.request, a.prompt, b.prompt)}
			}
			if !same && b.phase != phaseVacant && b.request <= was.s.minted {
				return &breach{"ID", fmt.Sprintf("request %d was there before", b.request)}
			}
			if same && b.valid > a.valid && a.phase == phaseLive && !w.earned(m, int32(slot), a, b) {
				return &breach{"ROW", fmt.Sprintf("request %d: the mark rose from %d to %d by %s", a.request, a.valid, b.valid, m.name)}
			}
		}
		for p := range c.s.pages {
			a, b := &was.s.pages[p], &c.s.pages[p]
			if b.gen < a.gen || b.state == pageWritable && a.state != pageWritable && b.gen == a.gen {
				return &breach{"GEN", fmt.Sprintf("page %d: generation %d became %d", p, a.gen, b.gen)}
			}
			if a.state == pageQuarantined && (b.state == pageWritable || b.state == pageFree) {
				return &breach{"QUIET", fmt.Sprintf("page %d left quarantine unscrubbed", p)}
			}
		}
	}
	return nil
}

// answered checks what a core says to an event that it accepts.
func (w *peers) answered(before *peers, m move, fx effects) error {
	if m.e == nil {
		return nil
	}
	was, is := before.cores[m.pool], w.cores[m.pool]
	switch e := m.e.(type) {
	case submit:
		if l := is.lease(fx.id); l.phase == phaseWaiting && int(l.limit) > is.limits().Context {
			return &breach{"ADMIT", fmt.Sprintf("%d tokens may be owned, the limit is %d", l.limit, is.limits().Context)}
		}
	case admit:
		if l := is.lease(e.id); l.phase == phaseLive && int(l.valid) >= len(e.tokens) {
			return &breach{"SEAL", fmt.Sprintf("%d of %d tokens were found, none is left to compute", l.valid, len(e.tokens))}
		}
	case begin:
		for _, f := range e.entries {
			if l := was.lease(f.id); f.at != l.valid {
				return &breach{"MARK", fmt.Sprintf("a step starts at %d, the mark stands at %d", f.at, l.valid)}
			}
		}
	case complete:
		for i, a := range e.arrivals {
			l := &was.s.leases[a.slot]
			right := l.phase == phaseLive && a.nonce == l.nonce && a.session == l.session && a.epoch == e.epoch
			if right != (fx.outcomes[i] == nil) {
				return &breach{"ROW", fmt.Sprintf("a result of session %d, lease %d, step %d ends with %v", a.session, a.nonce, a.epoch, fx.outcomes[i])}
			}
		}
	case quiesced:
		if l := was.lease(e.id); e.ticket != l.ticket {
			return &breach{"QUIET", "quiet under another ticket"}
		}
	case forget:
		for i := range is.s.index.entries {
			if en := &is.s.index.entries[i]; en.indexed && en.scope == e.scope {
				return &breach{"KEY", fmt.Sprintf("page %d of a forgotten scope can be found", i)}
			}
		}
	}
	return nil
}

// earned reports whether a move may raise the mark of a running request: a step
// by the rows of that very request, or a commit to the end of its prompt.
func (w *peers) earned(m move, slot int32, a, b *lease) bool {
	switch e := m.e.(type) {
	case complete:
		for _, r := range e.arrivals {
			if r.slot == slot && r.nonce == a.nonce && e.epoch == a.step {
				return b.valid == a.valid+r.rows
			}
		}
	case commit:
		return e.id.slot == slot && b.valid == b.prompt && e.ticket.differs(e.manifest) == nil
	}
	return false
}
