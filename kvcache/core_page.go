package kvcache

import "github.com/cofferdam-ml/cofferdam/kvcache/internal/guard"

// push puts a page at the end of a list: first freed, first leased again, so
// that a stale handle stays refusable as long as possible.
func (c *core) push(l *list, p int32, to pageState) {
	pg := &c.s.pages[p]
	pg.state, pg.next = to, none
	if l.tail == none {
		l.head = p
	} else {
		c.s.pages[l.tail].next = p
	}
	l.tail = p
	l.n++
}

func (c *core) pop(l *list) int32 {
	p := l.head
	pg := &c.s.pages[p]
	l.head, pg.next = pg.next, none
	if l.head == none {
		l.tail = none
	}
	l.n--
	return p
}

// take leases a free page to a lease that was promised it.
func (c *core) take(slot int32) {
	l := &c.s.leases[slot]
	p := c.pop(&c.s.free)
	pg := &c.s.pages[p]
	pg.state, pg.owner, pg.filled, pg.uses = pageWritable, slot, 0, 0
	pg.gen++
	c.tag(p, l.nonce)
	l.table = append(l.table, ref{p, pg.gen})
	l.reserved--
	c.s.reserved--
}

func (c *core) tag(p int32, tag uint64) {
	c.s.pages[p].tag = tag
	c.fx.tags = append(c.fx.tags, tagging{p, tag})
}

// drop frees a page that no lease names any more. While someone holds it, it
// is quarantined instead; nothing but the last unpin ends that, time never.
func (c *core) drop(p int32) {
	pg := &c.s.pages[p]
	pg.owner, pg.uses = none, 0
	if guard.Quiet && pg.pins > 0 {
		pg.state = pageQuarantined
		return
	}
	pg.pins = 0
	c.push(&c.s.dirty, p, pageDirty)
}

// settle decides what becomes of a sealed page that may have lost its last
// user: it rests in the index, or is freed if it cannot be found there.
func (c *core) settle(p int32) {
	pg := &c.s.pages[p]
	if pg.uses > 0 || pg.pins > 0 && guard.Quiet {
		return
	}
	if c.s.index.entries[p].indexed {
		c.s.index.lay(p)
		return
	}
	c.drop(p)
}

// use adds a sealed page to the users' count of a lease.
func (c *core) use(p int32) {
	c.s.index.wake(p)
	c.s.pages[p].uses++
}

// pin holds the first n pages of the table for h.
func (c *core) pin(l *lease, h holder, n int32) {
	for _, r := range l.table[:n] {
		c.s.pages[r.page].pins++
	}
	l.pinned[h] = n
}

// unpin lets go of what h holds, deepest page first.
func (c *core) unpin(l *lease, h holder) {
	for i := l.pinned[h] - 1; i >= 0; i-- {
		r := l.table[i]
		pg := &c.s.pages[r.page]
		if pg.gen != r.gen || pg.pins == 0 {
			continue // freed under the holder: only without the guard QUIET
		}
		if pg.pins--; pg.pins > 0 {
			continue
		}
		switch pg.state {
		case pageQuarantined:
			c.drop(r.page)
		case pageSealed:
			c.settle(r.page)
		}
	}
	l.pinned[h] = 0
	if h == byStep {
		l.step, l.pending = 0, l.pending[:0]
	}
	if l.phase == phaseEnded {
		l.table = l.table[:l.held()]
	}
	c.vacate(l)
}

// held is how many pages of the table somebody pins.
func (l *lease) held() int32 {
	return max(l.pinned[byStep], l.pinned[byCopy], l.pinned[byWriter])
}

// giveBack takes everything from a lease: deepest page first, so that the
// resting list is evicted from the leaves.
func (c *core) giveBack(l *lease) {
	for i := len(l.table) - 1; i >= 0; i-- {
		p := l.table[i].page
		if pg := &c.s.pages[p]; pg.state == pageSealed {
			pg.uses--
			c.settle(p)
		} else {
			c.drop(p)
		}
	}
	c.s.reserved -= l.reserved
	l.reserved, l.valid, l.sealed = 0, 0, 0
	l.table, l.tail, l.key = l.table[:l.held()], nil, Key{}
}

// vacate frees the slot of a request that nobody asks about any more.
func (c *core) vacate(l *lease) {
	if l.phase == phaseEnded && l.released && l.held() == 0 && l.step == 0 {
		*l = lease{}
	}
}

// evict drops the page that was used least recently.
func (c *core) evict() {
	p := c.s.index.rest.head
	c.s.index.remove(p)
	c.drop(p)
}

// on hands up to n dirty pages to the store, evicting for what is missing.
func (e reclaim) on(c *core) error {
	s := &c.s
	for s.dirty.n+s.scrubbing < e.pages && s.index.rest.n > 0 {
		c.evict()
	}
	for range min(e.pages, s.dirty.n) {
		p := c.pop(&s.dirty)
		s.pages[p].state = pageScrubbing
		s.scrubbing++
		c.fx.scrub = append(c.fx.scrub, ref{p, s.pages[p].gen})
	}
	return nil
}

// scrubbed takes a page back from the store.
func (e scrubbed) on(c *core) error {
	if !c.known(e.ref) || c.s.pages[e.ref.page].state != pageScrubbing {
		return stale(none, "a page that is being scrubbed", "another")
	}
	pg := &c.s.pages[e.ref.page]
	pg.tag, pg.sum, pg.filled = 0, 0, 0
	c.s.scrubbing--
	c.push(&c.s.free, e.ref.page, pageFree)
	return nil
}

// known reports whether r names a leasable page of its present generation.
func (c *core) known(r ref) bool {
	return r.page > NullPage && int(r.page) < len(c.s.pages) && c.s.pages[r.page].gen == r.gen
}

// summed records the checksum of a sealed page.
func (e summed) on(c *core) error {
	if !c.known(e.ref) || c.s.pages[e.ref.page].state != pageSealed {
		return stale(none, "a sealed page", "another")
	}
	c.s.pages[e.ref.page].sum = e.sum
	return nil
}

// corrupt takes a sealed page whose bytes have changed, and everything that
// continues it, out of the index, and fails every request that uses it.
func (e corrupt) on(c *core) error {
	if !c.known(e.ref) || c.s.pages[e.ref.page].state != pageSealed {
		return stale(none, "a sealed page", "another")
	}
	for i := range c.s.leases {
		l := &c.s.leases[i]
		if l.phase != phaseLive {
			continue
		}
		for _, r := range l.table {
			if r == e.ref {
				c.finish(int32(i), CauseFailed)
				break
			}
		}
	}
	c.forgetTree(e.ref.page)
	return nil
}

// forgetTree removes an entry and all its descendants from the index.
func (c *core) forgetTree(p int32) {
	x := &c.s.index
	resting := x.entries[p].resting
	x.remove(p)
	for i := range x.entries {
		if x.entries[i].indexed && x.entries[i].parent == p {
			c.forgetTree(int32(i))
		}
	}
	if resting {
		c.drop(p)
	}
}

// forget makes a scope's pages unfindable. Those that nobody uses are freed;
// the others when their last user ends, and until then nothing new of the
// scope's running requests is sealed.
func (e forget) on(c *core) error {
	x := &c.s.index
	for i := range x.entries {
		en := &x.entries[i]
		if !en.indexed || !e.all && en.scope != e.scope {
			continue
		}
		resting := en.resting
		x.remove(int32(i))
		if resting {
			c.drop(int32(i))
		}
	}
	for i := range c.s.leases {
		if l := &c.s.leases[i]; l.phase == phaseLive && (e.all || l.scope == e.scope) {
			l.private, l.tail = true, nil
		}
	}
	c.record(Record{Event: AuditForgotten})
	return nil
}
