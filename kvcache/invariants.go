package kvcache

import "fmt"

// A breach names the invariant that does not hold.
type breach struct {
	rule string
	what string
}

func (b *breach) Error() string { return "kvcache: invariant " + b.rule + ": " + b.what }

// check recounts the whole state against the invariants. Its cost grows with
// the pool, so it runs after every event only in tests and under the build tag
// cofferdam_invariants.
func (c *core) check() error {
	k := checker{c: c, s: &c.s, pins: make([]int32, len(c.s.pages)), uses: make([]int32, len(c.s.pages)), owned: make([]int32, len(c.s.pages)), listed: make([]int32, len(c.s.pages))}
	for i := range c.s.leases {
		k.lease(int32(i), &c.s.leases[i])
	}
	k.lists()
	for i := range c.s.pages {
		k.page(int32(i), &c.s.pages[i])
	}
	k.totals()
	return k.first
}

type checker struct {
	c      *core
	s      *state
	first  error
	pins   []int32 // recounted, by page
	uses   []int32
	owned  []int32 // how many leases own the page
	listed []int32 // how often the page is on a list

	reserved, writable, sealed, quarantined, null int32
}

func (k *checker) must(ok bool, rule, format string, args ...any) {
	if !ok && k.first == nil {
		k.first = &breach{rule, fmt.Sprintf(format, args...)}
	}
}

// lease checks one request.
func (k *checker) lease(slot int32, l *lease) {
	if l.phase == phaseVacant {
		k.must(len(l.table) == 0 && l.step == 0 && l.held() == 0, "QUIET", "slot %d is vacant and holds pages", slot)
		return
	}
	k.must((l.phase == phaseEnded) == (l.cause != CauseNone), "TERM", "request %d: phase %d, cause %v", l.request, l.phase, l.cause)
	k.must(l.phase == phaseLive || l.reserved == 0 && l.valid == 0 && len(l.table) == int(l.held()), "TERM", "request %d is not live and owns something", l.request)
	k.reserved += l.reserved
	k.must(l.reserved >= 0, "ADMIT", "request %d: reservation %d", l.request, l.reserved)
	for h, n := range l.pinned {
		k.must(int(n) <= len(l.table), "QUIET", "request %d: holder %d pins %d of %d pages", l.request, h, n, len(l.table))
		for _, r := range l.table[:min(int(n), len(l.table))] {
			k.pins[r.page]++
		}
	}
	k.must((l.step != 0) == (l.pinned[byStep] > 0) && (l.step != 0) == (len(l.pending) > 0), "QUIET", "request %d: step %d pins %d pages for %d rows", l.request, l.step, l.pinned[byStep], len(l.pending))
	k.must((l.ticket != Nonce{}) == (l.pinned[byWriter] > 0), "QUIET", "request %d: ticket and writer disagree", l.request)
	for _, r := range l.table {
		k.must(k.c.known(r), "GEN", "request %d names page %d of generation %d, which has %d", l.request, r.page, r.gen, k.s.pages[r.page].gen)
	}
	if l.phase == phaseLive {
		k.live(slot, l)
	}
}

func (k *checker) live(slot int32, l *lease) {
	size := int32(k.c.cfg.PageSize)
	if k.c.cfg.Admission == Strict {
		most := k.c.pagesFor(k.c.wants(l, l.prompt))
		k.must(int32(len(l.table))+l.reserved == most, "ADMIT", "request %d: %d pages and %d promised, want %d", l.request, len(l.table), l.reserved, most)
	}
	k.must(l.valid >= 0 && l.valid <= l.limit+int32(k.c.cfg.Slack) && k.c.pagesFor(l.valid) <= int32(len(l.table)), "MARK", "request %d: mark %d, limit %d, %d pages", l.request, l.valid, l.limit, len(l.table))
	k.must(l.valid >= l.sealed*size, "ROLL", "request %d: mark %d below %d sealed pages", l.request, l.valid, l.sealed)
	k.must(l.private || l.valid-l.sealed*size == int32(len(l.tail)), "SEAL", "request %d: mark %d, %d sealed, %d tokens of the open page", l.request, l.valid, l.sealed, len(l.tail))
	for i, r := range l.table {
		pg := &k.s.pages[r.page]
		if int32(i) < l.sealed {
			k.uses[r.page]++
			k.must(pg.state == pageSealed, "OWN", "request %d: page %d of its sealed prefix is in state %d", l.request, r.page, pg.state)
			k.must(k.s.index.entries[r.page].scope == l.scope, "KEY", "request %d reads page %d of another scope", l.request, r.page)
			continue
		}
		k.owned[r.page]++
		k.must(pg.state == pageWritable && pg.owner == slot, "OWN", "request %d: page %d is in state %d, owner %d", l.request, r.page, pg.state, pg.owner)
		k.must(pg.tag == l.nonce && pg.tag != 0, "BIND", "request %d: page %d carries another tag", l.request, r.page)
		rows := min(max(l.valid-int32(i)*size, 0), size)
		k.must(pg.filled == rows || l.pinned[byWriter] > 0 && l.valid == 0, "MARK", "request %d: page %d holds %d rows, mark says %d", l.request, r.page, pg.filled, rows)
	}
	if n := int32(len(l.pending)); n > 0 {
		last := (l.valid + n - 1) / size
		k.must(l.valid/size >= l.sealed && last < l.pinned[byStep], "SCRATCH", "request %d: step writes rows %d to %d outside its own pinned pages", l.request, l.valid, l.valid+n-1)
	}
}

// lists counts where pages are linked.
func (k *checker) lists() {
	count := func(l list, want pageState, name string, next func(int32) int32) {
		n := int32(0)
		last := int32(none)
		for p := l.head; p != none && n <= l.n; p = next(p) {
			k.listed[p]++
			k.must(k.s.pages[p].state == want, "OWN", "page %d is on list %s in state %d", p, name, k.s.pages[p].state)
			n, last = n+1, p
		}
		k.must(n == l.n && last == l.tail, "SUM", "list %s says %d pages and has %d", name, l.n, n)
	}
	link := func(p int32) int32 { return k.s.pages[p].next }
	count(k.s.free, pageFree, "free", link)
	count(k.s.dirty, pageDirty, "dirty", link)
	count(k.s.index.rest, pageSealed, "resting", func(p int32) int32 { return k.s.index.entries[p].next })
}

// page checks one sidecar against what was counted.
func (k *checker) page(p int32, pg *page) {
	e := &k.s.index.entries[p]
	k.must(pg.pins == k.pins[p], "QUIET", "page %d has %d pins, %d holders", p, pg.pins, k.pins[p])
	k.must(pg.uses == k.uses[p], "OWN", "page %d has %d uses, %d users", p, pg.uses, k.uses[p])
	k.must(k.owned[p] <= 1 && (k.owned[p] == 1) == (pg.state == pageWritable), "OWN", "page %d in state %d has %d owners", p, pg.state, k.owned[p])
	k.must((p == NullPage) == (pg.state == pageNull), "NULL", "page %d is in state %d", p, pg.state)
	k.must(!e.resting || k.listed[p] == 1, "SUM", "page %d rests on no list", p)
	listed := pg.state == pageFree || pg.state == pageDirty || e.resting
	k.must(k.listed[p] <= 1 && listed == (k.listed[p] == 1), "OWN", "page %d in state %d is on %d lists", p, pg.state, k.listed[p])
	switch pg.state {
	case pageNull:
		k.null++
		k.must(pg.tag == 0 && pg.gen == 0 && pg.filled == 0 && pg.pins == 0 && !e.indexed, "NULL", "page %d was used", p)
	case pageFree:
		k.must(pg.tag == 0 && pg.filled == 0, "DIRTY", "page %d is free and not scrubbed", p)
		k.must(pg.pins == 0, "QUIET", "page %d is free and pinned", p)
	case pageDirty, pageScrubbing:
		k.must(pg.pins == 0, "QUIET", "page %d is being freed and pinned", p)
	case pageQuarantined:
		k.quarantined++
		k.must(pg.pins > 0, "QUIET", "page %d is quarantined for nobody", p)
	case pageWritable:
		k.writable++
	case pageSealed:
		k.sealed++
		k.sealedPage(p, pg, e)
	}
	k.must(!e.indexed || pg.state == pageSealed, "DIRTY", "page %d can be found in state %d", p, pg.state)
}

func (k *checker) sealedPage(p int32, pg *page, e *entry) {
	k.must(pg.filled == int32(k.c.cfg.PageSize), "SEAL", "page %d is sealed with %d rows", p, pg.filled)
	k.must(pg.tag != 0 && pg.owner == none, "BIND", "page %d is sealed and has owner %d", p, pg.owner)
	for i := range k.s.leases {
		k.must(pg.tag != k.s.leases[i].nonce, "BIND", "page %d is sealed and carries the tag of a writer", p)
	}
	k.must(e.resting == (e.indexed && pg.uses == 0 && pg.pins == 0), "QUIET", "page %d: resting %v, %d uses, %d pins", p, e.resting, pg.uses, pg.pins)
	if !e.indexed {
		k.must(pg.uses > 0 || pg.pins > 0, "SUM", "page %d is lost", p)
		return
	}
	var parent Key
	if e.parent == none {
		parent = rootKey(k.c.hash, k.c.identity, e.scope)
	} else {
		up := &k.s.index.entries[e.parent]
		k.must(up.indexed && up.scope == e.scope, "KEY", "page %d continues page %d of another scope", p, e.parent)
		k.must(k.s.pages[e.parent].uses >= pg.uses, "OWN", "page %d has more users than page %d before it", p, e.parent)
		parent = up.key
	}
	key, _ := pageKey(k.c.hash, nil, parent, k.s.index.of(p))
	k.must(key == e.key, "KEY", "page %d is filed under another key", p)
	k.must(k.s.index.find(e.key, e.scope, e.parent, k.s.index.of(p)) == p, "KEY", "page %d is indexed and cannot be found", p)
}

func (k *checker) totals() {
	s := k.s
	total := k.null + s.free.n + s.dirty.n + s.scrubbing + k.quarantined + k.writable + k.sealed
	k.must(int(total) == len(s.pages), "SUM", "states add up to %d of %d pages", total, len(s.pages))
	k.must(k.null == 1, "NULL", "%d null pages", k.null)
	k.must(s.reserved == k.reserved, "ADMIT", "%d pages reserved, leases say %d", s.reserved, k.reserved)
	k.must(k.c.room() >= 0, "ADMIT", "promised %d pages too many", -k.c.room())
	limit := k.c.limits().Context
	for i := range s.leases {
		l := &s.leases[i]
		k.must(l.phase != phaseLive || int(l.limit) <= limit || s.peer > 0, "ADMIT", "request %d may own %d tokens, limit %d", l.request, l.limit, limit)
	}
}
