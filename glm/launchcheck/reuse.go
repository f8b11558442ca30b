package launchcheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// donate lets the donor leave rows in the pool.
func (r *runner) donate(p *pool, a ask) {
	r.donated(p, a, r.generate(r.ctx, p, "donor", a, nil))
}

func (r *runner) donated(p *pool, a ask, have answer) {
	if have.err != nil {
		r.doubt("donor: %v", have.err)
	}
	p.count(have, a.prompt)
}

// soak answers victims one after the other on pages that the donor has filled.
// The pool is so small that each takes pages that the donor left, and the
// donor's prefixes go to make room.
func (r *runner) soak() {
	p := r.pool(glm.PoolConfig{Tokens: 4 * r.page})
	if p == nil {
		return
	}
	evicted := 0
	for i, a := range r.asks {
		if i%2 == 0 {
			r.donate(p, r.donation(min(4*r.page, r.context)-3, 2))
		}
		if need := (a.prompt + a.r.MaxTokens + r.page - 1) / r.page; need > r.rest(p).Free {
			evicted++
		}
		r.judge(p, "after the donor", a, r.generate(r.ctx, p, fmt.Sprint("victim ", i), a, nil), 0)
	}
	if evicted == 0 {
		r.doubt("nobody had to take a page that rested: nothing was seen")
	}
	r.settle(p)
	r.seen("%d victims, each a tenant; %d had to take pages that rested", len(r.asks), evicted)
}

// sideBySide answers all victims and the donor at once.
func (r *runner) sideBySide() {
	p := r.pool(glm.PoolConfig{Tokens: 16 * r.page})
	if p == nil {
		return
	}
	r.door = atTheDoor
	r.together(p, r.asks, []ask{r.donation(r.page+5, shortOut), r.donation(r.page+9, shortOut), r.donation(5, 2*shortOut)})
	r.settle(p)
	r.seen("%d victims and 3 requests of the donor in one pool", len(r.asks))
}

// together runs victims, each a tenant, and the donor's requests at once. The
// first to be admitted keeps the pool locked until the others stand at its
// door, so that they meet however fast the model is.
func (r *runner) together(p *pool, asks, donations []ask) {
	type part struct {
		s     *glm.Session
		a     ask
		judge func(answer)
	}
	var parts []part
	for _, a := range donations {
		parts = append(parts, part{r.session(p, "donor"), a, func(have answer) { r.donated(p, a, have) }})
		r.note(p, "donor")
	}
	for i, a := range asks {
		tenant := fmt.Sprint("victim ", i)
		if i == 1 {
			tenant = "" // shares with nobody
		}
		parts = append(parts, part{r.session(p, tenant), a, func(have answer) { r.judge(p, "side by side", a, have, 0) }})
		r.note(p, tenant)
	}
	if r.doubted() {
		return
	}
	var about, done sync.WaitGroup
	about.Add(len(parts))
	p.first = func() {
		about.Wait()
		time.Sleep(r.door)
	}
	for _, part := range parts {
		done.Go(func() {
			defer part.s.Close()
			about.Done()
			part.judge(hear(part.s.Generate(r.ctx, part.a.r), nil))
		})
	}
	done.Wait()
}

// aborts ends the donor's request in every way and at many points, and lets a
// victim have the pages at once.
func (r *runner) aborts() {
	p := r.pool(glm.PoolConfig{Tokens: 4 * r.page})
	if p == nil {
		return
	}
	p.loose = true // a request that is left may have come to its end unheard
	d := r.donation(2*r.page+3, r.page)
	if d.prompt+d.r.MaxTokens > r.context {
		d = r.donation(r.context/2, r.context/2-1)
	}
	ends := 0
	for i, end := range []struct {
		name  string
		after int // tokens
		by    string
	}{
		{"cancelled at once", 0, "start"}, {"cancelled in the prompt", 0, "cancel"}, {"cancelled", 1, "cancel"}, {"cancelled", 3, "cancel"},
		{"left", 1, "leave"}, {"left", 4, "leave"}, {"closed in the prompt", 0, "close"}, {"closed", 2, "close"},
	} {
		how := fmt.Sprintf("after the donor was %s at token %d", end.name, end.after)
		r.abort(p, d, end.after, end.by)
		a := r.asks[i%len(r.asks)]
		r.judge(p, how, a, r.generate(r.ctx, p, fmt.Sprint("victim ", i), a, nil), 0)
		ends++
	}
	r.settle(p)
	r.seen("%d ends of the donor, after each a victim on its pages", ends)
}

// abort runs the donor's request and ends it: by cancelling, by leaving the
// stream or by closing the session, once some tokens have come.
func (r *runner) abort(p *pool, d ask, after int, by string) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	s := r.session(p, "donor")
	if s == nil {
		return
	}
	defer s.Close()
	r.note(p, "donor")
	act := func() bool {
		switch by {
		case "cancel":
			cancel()
		case "close":
			s.Close()
		case "leave":
			return false
		}
		return true
	}
	if by == "start" {
		cancel()
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	if after == 0 && by != "start" {
		wg.Go(func() {
			if r.await(p, over, func(s glm.PoolStats) bool { return s.Running > 0 && s.Writable > 0 }) {
				act()
			}
		})
	}
	have := hear(s.Generate(ctx, d.r), func(n int) bool { return n != after || act() })
	close(over)
	wg.Wait()
	u := s.Usage()
	switch {
	case by != "leave" && have.err == nil && have.finish.Reason != glm.FinishLength && have.finish.Reason != glm.FinishStop:
		r.doubt("the donor's end was lost: %q after %d tokens", have.finish.Reason, len(have.tokens))
	case have.err != nil && !errors.Is(have.err, glm.ErrCanceled) && !errors.Is(have.err, glm.ErrSessionClosed):
		r.doubt("the donor's request ended otherwise: %v", have.err)
	case have.finish.Reason != "" && (u.Prompt != d.prompt || u.Output < len(have.tokens)):
		r.doubt("the donor's request accounts for %+v after %d tokens of a prompt of %d", u, len(have.tokens), d.prompt)
	}
}
