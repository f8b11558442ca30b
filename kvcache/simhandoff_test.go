package kvcache

import (
	"context"
	"errors"
	"slices"
)

// ticket issues the ticket of a remote request, and has a session of the other
// pool accept it.
func (s *simulation) ticket(o simOp) {
	r, ok := pick(o.a, s.requests, func(r *simRequest) bool {
		return r.remote && r.enters == nil && !r.over && r.ticket == nil
	})
	if !ok {
		return
	}
	var t Ticket
	var err error
	s.call("Ticket", func() { t, err = r.lease.Ticket() })
	if s.failed != nil {
		return
	}
	if err != nil {
		if cause, _ := r.lease.Cause(); cause == CauseNone {
			s.fail("ticket: %w", err)
		}
		r.over = true
		return
	}
	r.ticket, r.waits = &t, true
	s.say("session %d issues a ticket for %d pages", r.s.world, len(t.pages))
	pre := s.pools[0]
	if n, ok := pick(o.b, s.sessions, func(n *simSession) bool { return n.pool == pre && !n.closed && n.tenant != r.s.tenant }); ok {
		if _, err := n.Accept(context.Background(), t, r.tokens); !errors.Is(err, ErrHandoff) {
			s.fail("HAND: session %d takes a ticket of another tenant: %v", n.world, err)
		}
	}
	inner, err := pre.NewSession(r.s.tenant)
	if err != nil {
		s.fail("open: %w", err)
		return
	}
	n := &simSession{Session: inner, pool: pre, world: uint64(len(s.sessions) + 1), tenant: r.s.tenant, token: r.s.token}
	pre.store.ours[inner.ID()] = n.world
	s.sessions = append(s.sessions, n)
	if r.s.tenant == "" {
		r.s.heirOf = append(r.s.heirOf, n.world)
	}
	from := &simRequest{s: n, tokens: slices.Clone(r.tokens), peer: r, sent: true}
	r.peer = from
	s.enter(from, 1, t)
}

// send starts to copy a computed prompt.
func (s *simulation) send(o simOp) {
	from, ok := pick(o.a, s.requests, func(r *simRequest) bool {
		return r.sent && r.enters == nil && !r.over && r.step == nil && r.peer != nil && r.mark == len(r.tokens) && !slices.ContainsFunc(s.sends, func(d *simSend) bool { return d.from == r })
	})
	if !ok {
		return
	}
	d := &simSend{from: from, to: from.peer, done: make(chan struct{})}
	s.sends = append(s.sends, d)
	s.say("session %d sends to session %d", from.s.world, d.to.s.world)
	// The copy engine may write once more what it has read now.
	inside(s.pools[0].Pool, func(c *core) {
		if l := c.lease(from.lease.id); l != nil && len(l.table) > 0 && len(d.to.ticket.pages) > 0 {
			n := int32(min(4, len(from.tokens)))
			s.replay = append(s.replay, simWrite{*d.to.ticket, d.to.ticket.pages[0], n, s.pools[0].store.bytes(nil, int(l.table[0].page)), d.to})
		}
	})
	done := d.done
	go func() {
		defer close(done)
		d.manifest, d.err = from.lease.Send(s.pools[1].Pool, 7)
	}()
}

func (s *simulation) sent(d *simSend) {
	var flaw *IntegrityError
	switch {
	case d.err == nil:
		s.say("session %d has sent all pages", d.from.s.world)
	case errors.As(d.err, &flaw) && d.to.cause == CauseNone && d.from.cause == CauseNone && d.to.waits:
		s.fail("HAND: a lawful copy is refused: %w", d.err)
	default:
		s.met["copy refused"]++
		d.to.waits, d.to.remote = false, false // Send says that it writes no more
	}
}

func (s *simulation) copyPage(simOp) {
	if s.pools[0].store.copies.pass(0) {
		s.say("the copy engine moves a page")
	}
}

// commit ends a hand-off: with the manifest if there is one, with one that
// claims too much if not.
func (s *simulation) commit(o simOp) {
	r, ok := pick(o.a, s.requests, func(r *simRequest) bool { return r.waits && !r.over })
	if !ok {
		return
	}
	d, ok := pick(0, s.sends, func(d *simSend) bool { return d.to == r && d.done == nil && d.err == nil })
	if !ok {
		if o.b%4 != 0 {
			return
		}
		arrived := int32(0)
		inside(s.pools[1].Pool, func(c *core) {
			if l := c.lease(r.lease.id); l != nil && l.phase == phaseLive {
				arrived = c.arrived(l)
			}
		})
		err := r.lease.Commit(Manifest{ticket: *r.ticket})
		s.say("session %d gets a manifest before its rows", r.s.world)
		if err == nil && int(arrived) < len(r.tokens) {
			s.fail("HAND: committed %d tokens with %d rows", len(r.tokens), arrived)
		}
		if err == nil {
			s.committed(r)
		} else {
			r.over = true
		}
		return
	}
	err := r.lease.Commit(d.manifest)
	s.say("session %d commits", r.s.world)
	cause, _ := r.lease.Cause()
	switch {
	case err == nil:
		s.committed(r)
	case r.cause == CauseNone:
		s.fail("HAND: a lawful manifest is refused: %w", err)
	}
	r.over = cause != CauseNone
}

func (s *simulation) committed(r *simRequest) {
	s.met["committed"]++
	r.received = len(r.tokens)
	if v := r.lease.Valid(); v != len(r.tokens) {
		s.fail("HAND: after the commit the mark stands at %d of %d", v, len(r.tokens))
	}
	r.mark, r.remote, r.waits = len(r.tokens), false, false
	if r.mark < r.end {
		r.tokens = append(r.tokens, r.s.token+int32(r.mark)*11%500)
	}
}

// quiesce says that the peer writes no more: true once no copy is under way.
func (s *simulation) quiesce(o simOp) {
	r, ok := pick(o.a, s.requests, func(r *simRequest) bool {
		return r.waits && !slices.ContainsFunc(s.sends, func(d *simSend) bool { return d.to == r && d.done != nil })
	})
	if !ok {
		return
	}
	s.say("session %d's peer is quiet", r.s.world)
	r.lease.Quiesced()
	r.waits, r.remote = false, false
	s.met["quiet"]++
}

// lateWrite lets the copy engine write again what it once read. Under a ticket
// that still waits it is the same row again; otherwise it must be dropped.
func (s *simulation) lateWrite(o simOp) {
	if len(s.replay) == 0 {
		return
	}
	w := s.replay[o.a%len(s.replay)]
	err := s.pools[1].receive(w.ticket, w.page, w.rows, w.data)
	s.say("a late write for session %d: refused %v", w.of.s.world, err != nil)
	if err != nil {
		s.met["late write dropped"]++
	}
	if (!w.of.waits || w.of.cause != CauseNone) && err == nil {
		s.fail("QUIET: a write under a ticket that is over went through")
	}
}
