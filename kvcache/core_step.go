package kvcache

import (
	"fmt"
	"slices"

	"github.com/cofferdam-ml/cofferdam/kvcache/internal/guard"
)

// shortError says how many more free pages a step needs. They exist: every
// row of an entry has been promised its page.
type shortError struct{ pages int32 }

func (e *shortError) Error() string { return fmt.Sprintf("kvcache: %d pages to scrub first", e.pages) }

func stale(position int, want, have string) error {
	return &IntegrityError{Kind: ErrStalePage, Position: position, Want: want, Have: have}
}

// may checks one sequence of a step: that the request runs, that the caller
// counts positions as the mark does, that every row was reserved, and owner,
// generation and mark of every page that it will read.
func (c *core) may(f feed) error {
	l := c.lease(f.id)
	if l == nil || l.phase == phaseEnded {
		return ErrEnded
	}
	if l.phase == phaseWaiting {
		return ErrRequeued
	}
	n := int32(len(f.tokens))
	switch {
	case l.step != 0 || l.pinned[byWriter] > 0 || l.pinned[byCopy] > 0:
		return &IntegrityError{Kind: ErrBinding, Position: int(l.valid), Want: "a request in no step and no hand-off", Have: fmt.Sprintf("one in step %d", l.step)}
	case f.at != l.valid:
		return &IntegrityError{Kind: ErrUnwritten, Position: int(l.valid), Want: fmt.Sprintf("rows from the mark %d on", l.valid), Have: fmt.Sprintf("rows from %d on", f.at)}
	case n < 1 || n > l.limit+int32(c.cfg.Slack)-l.valid || c.pagesFor(l.valid+n) > int32(len(l.table))+l.reserved:
		return c.tooLong(l, int(n))
	}
	return c.readable(f.id.slot, l)
}

// readable checks the pages below the mark against their sidecars.
func (c *core) readable(slot int32, l *lease) error {
	size := int32(c.cfg.PageSize)
	for i, at := 0, int32(0); at < l.valid; i, at = i+1, at+size {
		r := l.table[i]
		pg := &c.s.pages[r.page]
		if guard.Gen && pg.gen != r.gen {
			return stale(int(at), fmt.Sprintf("generation %d", r.gen), fmt.Sprintf("generation %d", pg.gen))
		}
		switch {
		case pg.state == pageWritable && pg.owner == slot:
		case pg.state == pageSealed && c.s.index.entries[r.page].scope == l.scope:
		default:
			return stale(int(at), "a page of this request or its scope", "another's")
		}
		if rows := min(size, l.valid-at); guard.Mark && pg.filled < rows {
			return &IntegrityError{Kind: ErrUnwritten, Position: int(at + pg.filled), Want: fmt.Sprintf("%d rows in the page", rows), Have: fmt.Sprintf("%d", pg.filled)}
		}
	}
	return nil
}

// begin starts a step. The pages that the rows need are leased here, scrubbed
// ones only, and everything that the step reads or writes is pinned.
func (e begin) on(c *core) error {
	if c.s.closed {
		return ErrPoolClosed
	}
	need := int32(0)
	for i, f := range e.entries {
		if slices.ContainsFunc(e.entries[:i], func(o feed) bool { return o.id == f.id }) {
			return &IntegrityError{Kind: ErrBinding, Position: -1, Want: "each request once in a step", Have: "one twice"}
		}
		if err := c.may(f); err != nil {
			return err
		}
		l := c.lease(f.id)
		need += max(c.pagesFor(l.valid+int32(len(f.tokens)))-int32(len(l.table)), 0)
	}
	if need > c.s.free.n {
		return &shortError{pages: need - c.s.free.n}
	}
	epoch := c.mint()
	for _, f := range e.entries {
		l := c.lease(f.id)
		pages := c.pagesFor(l.valid + int32(len(f.tokens)))
		for int32(len(l.table)) < pages {
			c.take(f.id.slot)
		}
		l.step, l.pending = epoch, append(l.pending[:0], f.tokens...)
		c.pin(l, byStep, pages)
		for _, r := range l.table[:pages] {
			l.highest = max(l.highest, r.gen)
		}
	}
	c.fx.epoch = epoch
	return nil
}

// complete raises marks by the rows that arrived, for requests that still run
// and results that name the right request and step. Everything is unpinned.
func (e complete) on(c *core) error {
	if !c.flies(e.epoch) {
		return unknownStep(e.epoch)
	}
	for _, a := range e.arrivals {
		c.fx.outcomes = append(c.fx.outcomes, c.arrive(e.epoch, a))
	}
	c.unpinStep(e.epoch)
	return nil
}

func (c *core) arrive(epoch uint64, a arrival) error {
	if a.slot < 0 || int(a.slot) >= len(c.s.leases) || c.s.leases[a.slot].step != epoch {
		return &IntegrityError{Kind: ErrBinding, Position: -1, Want: fmt.Sprintf("a sequence of step %d, once", epoch), Have: "another"}
	}
	l := &c.s.leases[a.slot]
	switch {
	case a.epoch != epoch:
		return &IntegrityError{Kind: ErrBinding, Position: int(l.valid), Want: fmt.Sprintf("step %d", epoch), Have: fmt.Sprintf("step %d", a.epoch)}
	case a.nonce != l.nonce || a.session != l.session:
		return &IntegrityError{Kind: ErrBinding, Position: int(l.valid), Want: fmt.Sprintf("session %d, lease %d", l.session, l.nonce), Have: fmt.Sprintf("session %d, lease %d", a.session, a.nonce)}
	case a.rows < 0 || int(a.rows) > len(l.pending):
		return &IntegrityError{Kind: ErrBinding, Position: int(l.valid), Want: fmt.Sprintf("at most %d rows", len(l.pending)), Have: fmt.Sprint(a.rows)}
	case l.phase != phaseLive:
		c.unpin(l, byStep)
		return ErrEnded
	}
	tokens := l.pending[:a.rows]
	c.unpin(l, byStep)
	l.computed += a.rows
	c.raise(a.slot, tokens)
	return nil
}

func (c *core) unpinStep(epoch uint64) {
	for i := range c.s.leases {
		if l := &c.s.leases[i]; l.step == epoch {
			c.unpin(l, byStep)
		}
	}
}

func (e abort) on(c *core) error {
	if !c.flies(e.epoch) {
		return unknownStep(e.epoch)
	}
	c.unpinStep(e.epoch)
	return nil
}

// flies reports whether a step is in flight.
func (c *core) flies(epoch uint64) bool {
	return epoch != 0 && slices.ContainsFunc(c.s.leases, func(l lease) bool { return l.step == epoch })
}

func unknownStep(epoch uint64) error {
	return &IntegrityError{Kind: ErrBinding, Position: -1, Want: "a step in flight", Have: fmt.Sprintf("step %d", epoch)}
}

// raise moves the mark over tokens whose rows have arrived, and seals the
// pages that this fills.
func (c *core) raise(slot int32, tokens []int32) {
	l := &c.s.leases[slot]
	size := int32(c.cfg.PageSize)
	for _, t := range tokens {
		pg := &c.s.pages[l.table[l.valid/size].page]
		l.valid++
		pg.filled = max(pg.filled, (l.valid-1)%size+1)
		if l.private {
			continue
		}
		if l.tail = append(l.tail, t); int32(len(l.tail)) == size {
			c.seal(slot)
		}
	}
}

// seal makes the page that has just been filled read-only and findable. If the
// scope already has the same tokens at the same place, the lease reads that
// page from now on and its own is freed.
func (c *core) seal(slot int32) {
	l := &c.s.leases[slot]
	x := &c.s.index
	own := l.table[l.sealed].page
	parent := int32(none)
	if l.sealed > 0 {
		parent = l.table[l.sealed-1].page
	}
	var key Key
	key, c.buf = pageKey(c.hash, c.buf, l.key, l.tail)
	twin := x.find(key, l.scope, parent, l.tail)
	if twin == none {
		pg := &c.s.pages[own]
		pg.state, pg.owner, pg.uses = pageSealed, none, 1
		c.tag(own, c.mint())
		x.insert(own, key, l.scope, parent, l.tail)
		if c.cfg.Checksums {
			c.fx.sum = append(c.fx.sum, ref{own, pg.gen})
		}
	} else {
		c.use(twin)
		l.table[l.sealed] = ref{twin, c.s.pages[twin].gen}
		c.drop(own)
		if c.cfg.Checksums && guard.Sum {
			c.fx.verify = append(c.fx.verify, l.table[l.sealed])
		}
	}
	l.key, l.tail = key, l.tail[:0]
	l.sealed++
}
