package kvcache

import (
	"fmt"
	"slices"

	"github.com/cofferdam-ml/cofferdam/kvcache/internal/guard"
)

// peerLimit is the peers' part of the limit.
func (c *core) peerLimit() int32 {
	if !guard.Admit {
		return 0
	}
	return c.s.peer
}

func (e peer) on(c *core) error {
	if e.limit < 2 || e.limit > maxContext {
		return &FieldError{Field: "peer limit", Want: fmt.Sprintf("2 to %d tokens", maxContext), Have: fmt.Sprint(e.limit)}
	}
	if n := int32(e.limit); c.s.peer == 0 || n < c.s.peer {
		c.s.peer = n
	}
	return nil
}

// submit gives a request an identity and checks it against the limit. A
// refusal is terminal from the start.
func (e submit) on(c *core) error {
	switch {
	case c.s.closed:
		return ErrPoolClosed
	case e.prompt < 1:
		return &FieldError{Field: "Tokens", Want: "1 or more", Have: fmt.Sprint(e.prompt)}
	case e.output < 1:
		return &FieldError{Field: "MaxTokens", Want: "1 or more", Have: fmt.Sprint(e.output)}
	}
	slot := slices.IndexFunc(c.s.leases, func(l lease) bool { return l.phase == phaseVacant })
	if slot < 0 {
		slot = len(c.s.leases)
		c.s.leases = append(c.s.leases, lease{})
	}
	l := &c.s.leases[slot]
	*l = lease{phase: phaseWaiting, scope: e.scope, session: e.session, request: c.mint(), remote: e.remote}
	c.fx.id = leaseID{int32(slot), l.request}
	lim := c.limits()
	if err := lim.check(e.prompt, e.output, c.cfg.Admission); err != nil {
		c.fx.refusal = err
		l.prompt = int32(min(e.prompt, maxContext))
		l.cause = CauseRefused
		if guard.Term {
			l.phase = phaseEnded
		}
		c.recordLease(AuditRefused, l)
		return nil
	}
	l.prompt = int32(e.prompt)
	l.limit = int32(min(e.output, lim.Context-e.prompt)) + l.prompt
	return nil
}

// errNoRoom keeps a request waiting.
var errNoRoom = &ExhaustedError{}

// wants is how many rows a request must be able to own before it may start.
func (c *core) wants(l *lease, tokens int32) int32 {
	rows := l.limit
	if c.cfg.Admission == Clamp {
		rows = min(tokens+int32(c.cfg.PageSize), l.limit)
	}
	return rows + int32(c.cfg.Slack)
}

// admit reserves everything that the policy demands, or nothing. Pages found
// in the index need no reservation, but those that rest can no longer be
// evicted for others. A hit ends at n-1: one token at least is computed.
func (e admit) on(c *core) error {
	l := c.lease(e.id)
	n := int32(len(e.tokens))
	if l == nil || l.phase != phaseWaiting || c.s.closed {
		return ErrEnded
	}
	if n < l.prompt || n > l.limit {
		return &FieldError{Field: "Tokens", Want: fmt.Sprintf("%d to %d", l.prompt, l.limit), Have: fmt.Sprint(n)}
	}
	x := &c.s.index
	root := rootKey(c.hash, c.identity, l.scope)
	var hits []int32
	if !l.remote {
		hits, c.buf = x.match(c.hash, c.buf, root, l.scope, e.tokens, int(n)-1)
	}
	need := c.pagesFor(c.wants(l, n)) - int32(len(hits))
	woken := int32(0)
	for _, p := range hits {
		if x.entries[p].resting {
			woken++
		}
	}
	if need+woken > c.room() {
		return errNoRoom
	}
	l.phase, l.nonce, l.key = phaseLive, c.mint(), root
	l.table = make([]ref, 0, int32(len(hits))+need)
	for _, p := range hits {
		c.use(p)
		r := ref{p, c.s.pages[p].gen}
		l.table = append(l.table, r)
		l.key = x.entries[p].key
		if c.cfg.Checksums && guard.Sum {
			c.fx.verify = append(c.fx.verify, r)
		}
	}
	l.sealed = int32(len(hits))
	l.valid = l.sealed * int32(c.cfg.PageSize)
	l.reused += l.valid
	l.reserved = need
	c.s.reserved += need
	c.recordLease(AuditAdmitted, l)
	return nil
}

// grow promises the pages of the next rows. If none can be promised, the
// youngest request that has not yet given way and is in no step is requeued;
// if nobody can ever give way, the growing one ends as context.
func (e grow) on(c *core) error {
	l := c.lease(e.id)
	if l == nil || l.phase != phaseLive || l.step != 0 {
		return ErrEnded
	}
	if c.cfg.Admission != Clamp {
		return nil
	}
	rows := int64(l.valid) + int64(e.rows)
	if e.rows < 1 || rows > int64(l.limit)+int64(c.cfg.Slack) {
		return c.tooLong(l, e.rows)
	}
	more := c.pagesFor(int32(rows)) - int32(len(l.table)) - l.reserved
	for more > 0 && c.room() < more {
		victim := c.youngest()
		if victim == none && c.flying() {
			return errNoRoom // who is in a step may end or give way after it
		}
		if victim == none || victim == e.id.slot && c.alone(victim) {
			c.finish(e.id.slot, CauseContext)
			return nil
		}
		c.requeue(victim)
		if victim == e.id.slot {
			return nil
		}
	}
	if more > 0 {
		l.reserved += more
		c.s.reserved += more
	}
	return nil
}

// youngest returns the slot of the last submitted request that may be asked to
// give way, or none.
func (c *core) youngest() int32 {
	found := int32(none)
	for i := range c.s.leases {
		l := &c.s.leases[i]
		if l.phase != phaseLive || l.requeued || l.remote || l.held() > 0 {
			continue
		}
		if found == none || l.request > c.s.leases[found].request {
			found = int32(i)
		}
	}
	return found
}

// flying reports whether somebody's pages are held at this moment.
func (c *core) flying() bool {
	return slices.ContainsFunc(c.s.leases, func(l lease) bool { return l.held() > 0 })
}

// alone reports whether nobody else owns pages.
func (c *core) alone(slot int32) bool {
	for i := range c.s.leases {
		if int32(i) != slot && (c.s.leases[i].phase == phaseLive || c.s.leases[i].held() > 0) {
			return false
		}
	}
	return true
}

// requeue takes a request's pages; it waits again, and is never asked twice.
func (c *core) requeue(slot int32) {
	l := &c.s.leases[slot]
	c.giveBack(l)
	l.phase, l.requeued, l.private, l.nonce = phaseWaiting, true, false, 0
	c.fx.ended = append(c.fx.ended, leaseID{slot, l.request})
	c.recordLease(AuditRequeued, l)
}

// end is the one way to a terminal state: the first cause stays.
func (e end) on(c *core) error {
	l := c.lease(e.id)
	if l == nil {
		return ErrEnded
	}
	if e.cause == CauseNone || e.cause >= causes {
		return &FieldError{Field: "Cause", Want: "a terminal cause", Have: e.cause.String()}
	}
	if guard.Term && l.cause != CauseNone {
		c.fx.cause = l.cause
		return nil
	}
	c.finish(e.id.slot, e.cause)
	c.fx.cause, c.fx.won = e.cause, true
	return nil
}

// finish ends a request that has not ended.
func (c *core) finish(slot int32, cause Cause) {
	l := &c.s.leases[slot]
	l.cause = cause
	if l.phase == phaseEnded {
		return // only without the guard TERM
	}
	c.recordLease(AuditEnded, l)
	l.phase = phaseEnded
	c.giveBack(l)
	c.fx.ended = append(c.fx.ended, leaseID{slot, l.request})
}

func (e release) on(c *core) error {
	l := c.lease(e.id)
	if l == nil || l.phase != phaseEnded {
		return ErrEnded
	}
	l.released = true
	c.vacate(l)
	return nil
}

func (e shut) on(c *core) error {
	for i := range c.s.leases {
		l := &c.s.leases[i]
		if (l.phase == phaseWaiting || l.phase == phaseLive) && (e.session == 0 || l.session == e.session) {
			c.finish(int32(i), CauseClosed)
		}
	}
	c.s.closed = c.s.closed || e.session == 0
	return nil
}

// tooLong refuses rows beyond what the request was admitted for.
func (c *core) tooLong(l *lease, rows int) error {
	lim := c.limits()
	return &ContextError{Prompt: int(l.valid), Output: rows, Max: int(l.limit), Pool: lim.Pool, Limit: lim.Binding}
}
