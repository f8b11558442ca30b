package kvcache

import (
	"fmt"
	"testing/synctest"
)

// judge looks at the whole world after an event.
func (s *simulation) judge() {
	for _, p := range s.pools {
		if err := p.Check(); err != nil {
			s.fail("pool %d: %w", p.i, err)
		}
	}
	for _, p := range s.pools {
		s.generations(p)
	}
	for _, r := range s.requests {
		if r.lease == nil || r.enters != nil {
			continue
		}
		cause, _ := r.lease.Cause()
		if r.cause != CauseNone && cause != r.cause {
			s.fail("TERM: %v became %v", r.cause, cause)
		}
		if r.cause = cause; cause != CauseNone {
			var a Record
			inside(r.s.pool.Pool, func(*core) { a = s.records[r.s.pool.i][r.lease.id.request] })
			if a.Cause != cause || !r.unsure && (a.Computed != r.computed || a.Reused != r.reused || a.Received != r.received) {
				s.fail("LOUD: the record says %v, %d computed, %d reused, %d received; it was %d, %d, %d", a.Cause, a.Computed, a.Reused, a.Received, r.computed, r.reused, r.received)
			}
			continue
		}
		if v := r.lease.Valid(); !r.over && r.step == nil && v != r.mark && !s.requeued(r) {
			s.fail("MARK: session %d: the mark stands at %d, %d rows arrived", r.s.world, v, r.mark)
		}
	}
}

// generations checks that a page of one generation has one owner, ever.
func (s *simulation) generations(p *simPool) {
	inside(p.Pool, func(c *core) {
		for i := range c.s.pages {
			pg := &c.s.pages[i]
			if pg.state != pageWritable || pg.owner == none {
				continue
			}
			k, nonce := leasedPage{p.i, ref{int32(i), pg.gen}}, c.s.leases[pg.owner].nonce
			if was, ok := s.leased[k]; ok && was != nonce {
				s.fail("GEN: page %d of generation %d is leased twice", i, pg.gen)
			}
			s.leased[k] = nonce
		}
	})
}

// requeued reports whether a request has given way and does not know it yet.
func (s *simulation) requeued(r *simRequest) (waits bool) {
	inside(r.s.pool.Pool, func(c *core) {
		l := c.lease(r.lease.id)
		waits = l != nil && l.phase == phaseWaiting
	})
	return waits
}

// stop brings the world to rest and counts.
func (s *simulation) stop() {
	for _, p := range s.pools {
		p.store.scrubs.open()
	}
	if s.abrupt {
		for _, p := range s.pools {
			done := make(chan error, 1)
			s.jobs = append(s.jobs, done)
			go func() { done <- p.Close() }()
		}
		synctest.Wait()
		s.settle()
		s.judge()
	}
	for _, r := range s.requests {
		r.cancel()
	}
	synctest.Wait()
	s.settle()
	for _, r := range s.requests {
		if r.lease != nil {
			r.lease.End(CauseCancelled, nil)
		}
	}
	s.judge()
	for len(s.steps) > 0 && s.failed == nil {
		s.complete(simOp{})
	}
	for s.open1() {
		synctest.Wait()
	}
	s.settle()
	for _, r := range s.requests {
		if r.lease != nil {
			r.lease.Quiesced()
		}
	}
	s.judge()
	if s.failed != nil {
		return
	}
	for _, p := range s.pools {
		s.call("Close", func() { p.Close() })
		if s.failed != nil {
			return
		}
		if st := p.Stats(); st.Free != st.Pages {
			s.fail("SUM: after Close: %+v", st)
		}
		for i, row := range p.store.rows {
			if row != simPoison {
				s.fail("SCRUB: after Close page %d holds a row of session %d", i/4, row.session)
			}
		}
	}
	synctest.Wait()
	s.settle()
}

// open1 lets one waiting scrub or copy through.
func (s *simulation) open1() (any bool) {
	for _, p := range s.pools {
		any = p.store.scrubs.pass(0) || p.store.copies.pass(0) || any
	}
	return any
}

// giveUp ends a world that is broken, so that its goroutines go.
func (s *simulation) giveUp() {
	for _, p := range s.pools {
		p.store.scrubs.open()
		p.mu.Lock()
		for _, w := range p.queue.waiters {
			w.ready <- ErrPoolClosed
		}
		p.queue.waiters = nil
		p.core = newCore(p.cfg, 1<<40)
		p.closing = true
		p.changed.Broadcast()
		p.mu.Unlock()
	}
	for range 1000 {
		synctest.Wait()
		if !s.open1() {
			return
		}
	}
	panic(fmt.Sprint("the world does not end: ", s.failed))
}
