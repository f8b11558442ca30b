package kvcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"
)

// The events of the simulation within one pool.

func (s *simulation) open(o simOp) {
	p := s.pools[o.a%2]
	tenant := []string{"a", "b", ""}[o.b%3]
	inner, err := p.NewSession(tenant)
	if err != nil {
		s.fail("open: %w", err)
		return
	}
	n := &simSession{Session: inner, pool: p, world: uint64(len(s.sessions) + 1), tenant: tenant}
	if s.apart { // a token tells whose it is; otherwise all say the same
		n.token = map[string]int32{"a": 1000, "b": 2000, "": int32(10_000 + 1000*n.world)}[tenant]
	}
	p.store.ours[inner.ID()] = n.world
	s.sessions = append(s.sessions, n)
	s.say("open session %d of tenant %q in pool %d", n.world, tenant, p.i)
}

func (s *simulation) close(o simOp) {
	if n, ok := pick(o.a, s.sessions, func(n *simSession) bool { return !n.closed }); ok {
		s.say("close session %d", n.world)
		n.Session.Close()
		n.closed = true
		if n.tenant == "" {
			s.unfindable(n.pool, Scope{Session: n.ID()})
		}
	}
}

// text is what a tenant says: many prompts begin alike.
func (n *simSession) text(length, branch int) []int32 {
	out := make([]int32, length)
	for i := range out {
		out[i] = n.token + int32(i)*7%500
		if i >= 4*(branch%4) {
			out[i] += int32(branch % 2)
		}
	}
	return out
}

func (s *simulation) admit(o simOp) {
	n, ok := pick(o.a, s.sessions, func(n *simSession) bool { return !n.closed })
	if !ok {
		return
	}
	length := 1 + o.b%14
	if o.b == 63 {
		length = 20 + o.c
	}
	r := &simRequest{s: n, tokens: n.text(length, o.c%6), remote: n.pool.i == 1 && o.c%2 == 0}
	s.enter(r, 1+o.c%9, Ticket{})
}

// enter admits a request, or lets it wait.
func (s *simulation) enter(r *simRequest, output int, t Ticket) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.enters = cancel, make(chan admission, 1)
	s.requests = append(s.requests, r)
	s.say("admit request %d of session %d: %d + %d tokens, remote %v", len(s.requests), r.s.world, len(r.tokens), output, r.remote)
	prompt, accept, remote, enters := slices.Clone(r.tokens), r.peer != nil, r.remote, r.enters
	go func() {
		var in admission
		if accept {
			in.lease, in.err = r.s.Accept(ctx, t, prompt)
		} else {
			in.lease, in.err = r.s.Admit(ctx, Request{Tokens: prompt, MaxTokens: output, Remote: remote})
		}
		enters <- in
	}()
}

// settle takes in what has been decided meanwhile.
func (s *simulation) settle() {
	for _, r := range s.requests {
		select {
		case in := <-r.enters:
			r.enters = nil
			if in.lease != nil {
				r.lease, r.end = in.lease, len(r.tokens)+in.lease.MaxTokens()
			}
			s.entered(r, in.err)
		default:
		}
	}
	for _, job := range s.jobs {
		select {
		case err := <-job:
			if err != nil {
				s.fail("%w", err)
			}
		default:
		}
	}
	for _, send := range s.sends {
		if send.done == nil {
			continue
		}
		select {
		case <-send.done:
			send.done = nil
			s.sent(send)
		default:
		}
	}
}

func (s *simulation) entered(r *simRequest, err error) {
	var exhausted *ExhaustedError
	var tooLong *ContextError
	switch {
	case err == nil:
		r.mark = r.lease.Valid()
		cause, _ := r.lease.Cause()
		gone := cause != CauseNone // a pool that closes may end it before it is looked at
		if found := r.lease.Reused(); found >= len(r.tokens) || found%4 != 0 || r.mark != found && !gone {
			s.fail("SEAL: %d of %d tokens found, the mark stands at %d", found, len(r.tokens), r.mark)
		}
		r.unsure = r.unsure || gone
		if r.mark > 0 {
			s.met["prefix hit"]++
		}
		if r.reused += r.mark; r.admitted {
			return
		}
		k := leaseKey{r.s.pool.i, r.lease.Request()}
		if r.admitted = true; s.ids[k] {
			s.fail("ID: two requests are %d", k.request)
		}
		s.ids[k] = true
		if n := len(r.tokens); n >= r.end || r.end > s.limit() {
			s.fail("LOUD: %d tokens are admitted for %d, the limit is %d", n, r.end, s.limit())
		}
		return
	case errors.As(err, &exhausted):
		s.met["queue"]++
	case errors.As(err, &tooLong):
		s.met["refused"]++
		if tooLong.Prompt != len(r.tokens) || tooLong.Max != s.limit() || tooLong.Prompt+tooLong.Output <= s.limit() {
			s.fail("LOUD: a prompt of %d under a limit of %d: %w", len(r.tokens), s.limit(), err)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, ErrSessionClosed), errors.Is(err, ErrPoolClosed), errors.Is(err, ErrEnded):
	default:
		s.fail("LOUD: a lawful request is refused: %w", err)
	}
	r.over, r.unsure = true, r.admitted
}

// limit is the one that both pools serve.
func (s *simulation) limit() int {
	a, b := s.pools[0].Limits().Context, s.pools[1].Limits().Context
	if a != b {
		s.fail("ADMIT: one pool serves %d tokens, the other %d", a, b)
	}
	return a
}

func (s *simulation) leave(o simOp) {
	if r, ok := pick(o.a, s.requests, func(r *simRequest) bool { return r.enters != nil && !r.admitted }); ok {
		s.say("a request of session %d leaves the queue", r.s.world)
		r.cancel()
	}
}

// ready are the requests that can take part in a step of the pool.
func (s *simulation) ready(p *simPool) (out []*simRequest) {
	for _, r := range s.requests {
		if r.s.pool == p && r.enters == nil && !r.over && r.step == nil && !r.remote && r.mark < len(r.tokens) {
			out = append(out, r)
		}
	}
	return out
}

func (s *simulation) begin(o simOp) {
	p := s.pools[o.a%2]
	ready := s.ready(p)
	if len(ready) == 0 {
		return
	}
	st := &simStep{pool: p}
	var entries []Entry
	by := map[*Lease]*simRequest{}
	for i := range 1 + o.b%3 {
		r := ready[(o.b+i)%len(ready)]
		if by[r.lease] != nil {
			break
		}
		by[r.lease] = r
		n := min(1+(o.c+i)%14, len(r.tokens)-r.mark)
		entries = append(entries, Entry{r.lease, r.mark, r.tokens[r.mark : r.mark+n]})
	}
	owned := map[*Lease]int{}
	inside(p.Pool, func(c *core) {
		for _, e := range entries {
			if l := c.lease(e.Lease.id); l != nil {
				owned[e.Lease] = len(l.table)
			}
		}
	})
	var err error
	s.call("Begin", func() { st.Step, err = p.Begin(entries) })
	if s.failed != nil {
		return
	}
	if err != nil {
		s.fail("begin: %w", err)
		return
	}
	for _, ref := range st.Refused() {
		s.refused(by[ref.Lease], ref.Err)
	}
	if st.Epoch() == 0 {
		return
	}
	what := ""
	for q, l := range st.Leases() {
		r := by[l]
		r.step = st
		st.of = append(st.of, r)
		a := st.Arrays()
		what += fmt.Sprintf(" session %d rows %d to %d;", r.s.world, r.mark, a.KVLen[q]-1)
		for _, page := range a.Pages[q*a.Stride+min(owned[l], a.Stride) : (q+1)*a.Stride] { // leased for this step
			for _, row := range p.store.page(int(page)) {
				if row != simPoison {
					s.fail("SCRUB: page %d was leased to session %d with a row of session %d", page, r.s.world, row.session)
				}
			}
		}
	}
	s.say("begin in pool %d:%s", p.i, what)
	s.steps = append(s.steps, st)
}

func (s *simulation) refused(r *simRequest, err error) {
	var exhausted *ExhaustedError
	var flaw *IntegrityError
	cause, _ := r.lease.Cause()
	switch {
	case errors.Is(err, ErrRequeued):
		s.met["requeue"]++
		s.say("session %d is requeued", r.s.world)
		r.enters = make(chan admission, 1)
		l, again, enters := r.lease, slices.Clone(r.tokens), r.enters
		go func() { enters <- admission{nil, l.Readmit(context.Background(), again)} }()
	case errors.As(err, &exhausted) && cause == CauseNone: // another step holds the pages
	case errors.As(err, &flaw) && cause == CauseNone:
		s.fail("a lawful step is refused: %w", err)
	default:
		if cause == CauseNone {
			s.fail("refused with %w and has no cause", err)
		}
		r.over = true
	}
}

// run lets the backend do a step.
func (st *simStep) run(s *simulation, shuffle int) {
	order := make([]int, len(st.of))
	for i := range order {
		order[i] = (i + shuffle) % len(order)
	}
	up := pad(st.Arrays(), order, st.Arrays().Stride+shuffle%2, 1+shuffle%3, len(order)+shuffle%2)
	if err := st.Check(up); err != nil {
		s.fail("a lawful upload is refused: %w", err)
		return
	}
	err := st.pool.store.run(up, func(q, pos int, row simRow) error {
		r := st.of[order[q]]
		if row.pos != uint64(pos) || row.token != uint64(r.tokens[pos]) || !s.lawful(row.session, r.s) {
			return fmt.Errorf("LEAK: session %d, position %d reads token %d of session %d, position %d", r.s.world, pos, int64(row.token), int64(row.session), int64(row.pos))
		}
		return nil
	})
	if err != nil {
		s.fail("%w", err)
	}
}

// lawful reports whether a session may read what another wrote.
func (s *simulation) lawful(writer uint64, reader *simSession) bool {
	if writer == reader.world || reader.tenant == "" && slices.Contains(reader.heirOf, writer) {
		return true
	}
	return reader.tenant != "" && writer > 0 && writer <= uint64(len(s.sessions)) && s.sessions[writer-1].tenant == reader.tenant
}

func (s *simulation) stepOf(o simOp) (st *simStep, ok bool) {
	if len(s.steps) == 0 {
		return nil, false
	}
	i := o.a % len(s.steps)
	st = s.steps[i]
	s.steps = slices.Delete(s.steps, i, i+1)
	for _, r := range st.of {
		r.step = nil
	}
	return st, true
}

func (s *simulation) complete(o simOp) {
	st, ok := s.stepOf(o)
	if !ok {
		return
	}
	st.run(s, o.b)
	rs := results(st.Step)
	if o.c%5 == 0 { // the last rows of the first sequence were draft tokens, and rejected
		rs[0].Rows -= min(rs[0].Rows, 1)
	}
	wrong := o.c%11 == 1 // the first result is not of this step
	if wrong && o.b%2 == 0 {
		rs[0].Epoch--
	} else if wrong {
		rs[0].Session++
	}
	s.say("complete the step of pool %d: %d sequences, %d rows of the first, wrong %v", st.pool.i, len(rs), rs[0].Rows, wrong)
	for q, err := range st.Complete(rs) {
		r := st.of[q]
		if q == 0 && wrong {
			s.met["wrong echo"]++
			if !errors.Is(err, ErrBinding) {
				s.fail("BIND: a result of another step or session ends with %v", err)
			}
			r.over = r.cause != CauseNone
			continue
		}
		cause, _ := r.lease.Cause()
		if (err == nil) != (r.cause == CauseNone) {
			s.fail("TERM: a result is delivered with %v to a request that ended as %v", err, r.cause)
		}
		if err != nil || cause != CauseNone {
			r.over = true
			continue
		}
		r.computed += rs[q].Rows
		if r.mark += rs[q].Rows; r.mark == len(r.tokens) && r.mark < r.end && !r.sent {
			r.tokens = append(r.tokens, r.s.token+int32(r.mark)*11%500)
		}
	}
}

func (s *simulation) abort(o simOp) {
	if st, ok := s.stepOf(o); ok {
		s.say("abort the step of pool %d", st.pool.i)
		st.run(s, o.b) // it may have written everything
		st.Abort()
		s.met["abort"]++
	}
}

// finish ends a request that has said what it wanted.
func (s *simulation) finish(o simOp) {
	if r, ok := pick(o.a, s.requests, func(r *simRequest) bool {
		return r.lease != nil && r.enters == nil && r.cause == CauseNone && r.step == nil && r.mark == len(r.tokens) && !s.copies(r)
	}); ok {
		s.say("session %d stops", r.s.world)
		r.lease.End(CauseStop, nil)
		r.over = true
	}
}

// copies reports whether a request is, or will be, the source of a copy.
func (s *simulation) copies(r *simRequest) bool {
	return r.sent && r.peer.waits && !slices.ContainsFunc(s.sends, func(d *simSend) bool { return d.from == r && d.done == nil })
}

func (s *simulation) end(o simOp) {
	r, ok := pick(o.a, s.requests, func(r *simRequest) bool { return r.lease != nil && r.enters == nil })
	if !ok {
		return
	}
	cause := []Cause{CauseStop, CauseCancelled, CauseFailed}[o.b%3]
	was := r.cause
	have, _ := r.lease.End(cause, nil)
	s.say("session %d ends its request as %v", r.s.world, cause)
	if r.step != nil && was == CauseNone {
		s.met["end during a step"]++
	}
	if was != CauseNone && have != was {
		s.fail("TERM: %v became %v", was, have)
	}
	r.over = true
}

func (s *simulation) forget(o simOp) {
	p, tenant := s.pools[o.a%2], []string{"a", "b"}[o.b%2]
	s.say("forget tenant %q in pool %d", tenant, p.i)
	lives := map[int]uint64{} // of the pages that hold the tenant's rows
	for i, row := range p.store.rows {
		if row != simPoison && row.session > 0 && s.sessions[row.session-1].tenant == tenant {
			lives[i/4] = p.store.life[i/4]
		}
	}
	done := make(chan error, 1)
	s.jobs = append(s.jobs, done)
	go func() {
		err := p.Forget(context.Background(), tenant)
		for page, life := range lives {
			if err == nil && p.store.life[page] == life {
				err = fmt.Errorf("SCRUB: page %d still holds what was to be forgotten", page)
			}
		}
		done <- err
	}()
	synctest.Wait()
	s.unfindable(p, Scope{Tenant: tenant})
}

// unfindable checks that the index holds nothing of a scope.
func (s *simulation) unfindable(p *simPool, scope Scope) {
	inside(p.Pool, func(c *core) {
		for i := range c.s.index.entries {
			if e := &c.s.index.entries[i]; e.indexed && e.scope == scope {
				s.fail("KEY: page %d of a forgotten scope can be found", i)
			}
		}
	})
}

func (s *simulation) scrub(o simOp) {
	if s.pools[o.a%2].store.scrubs.pass(o.b) {
		s.say("a scrub in pool %d ends", o.a%2)
	}
}

func (s *simulation) sleep(simOp) {
	s.say("time passes")
	time.Sleep(1100 * time.Millisecond)
}
