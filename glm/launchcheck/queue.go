package launchcheck

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

const (
	// attempts is how often a situation that needs two requests to meet is tried.
	attempts = 8
	// atTheDoor is more than a mutex lets those who wait for it wait in vain. It
	// doubles with every attempt, for machines that are busy.
	atTheDoor = 3 * time.Millisecond
)

// queue fills a pool and its queue of one: of two victims one waits and is
// answered on the donor's pages, the other is refused. One more leaves the queue.
func (r *runner) queue() {
	p := r.pool(glm.PoolConfig{Tokens: 3 * r.page, Queue: 1})
	if p == nil {
		return
	}
	p.loose = true
	limit := p.Limits().Context
	refused, left := false, false
	for try := 0; try < attempts && !(refused && left) && !r.doubted(); try++ {
		d, a := r.donation(4, limit-4), r.asks[try%len(r.asks)]
		r.door = atTheDoor << try
		refused = r.crowd(p, d, a, r.asks[(try+1)%len(r.asks)]) || refused
		left = r.leave(p, d, a) || left
		if err := p.Forget(r.ctx, "victim"); err != nil { // the next try begins cold
			r.doubt("forget: %v", err)
		}
	}
	if !(refused && left) && !r.doubted() {
		r.doubt("refused for a full queue: %v, left the queue: %v: not everything was seen", refused, left)
	}
	r.settle(p)
	r.seen("one waited and was answered, one was refused, one left the queue")
}

// behind lets others come to the pool's door while the donor is being admitted,
// and waits until they are done. The donor leaves at its first token, after act.
func (r *runner) behind(p *pool, d ask, act func(), others ...func(begun func())) {
	var about, done sync.WaitGroup
	about.Add(len(others))
	p.first = func() {
		for _, other := range others {
			done.Go(func() { other(about.Done) })
		}
		about.Wait()
		time.Sleep(r.door)
	}
	if have := r.generate(r.ctx, p, "donor", d, func(int) bool { act(); return false }); have.err != nil {
		r.doubt("donor: %v", have.err)
	}
	done.Wait()
}

// crowd reports whether one of two victims was refused because the other waited.
func (r *runner) crowd(p *pool, d, a, b ask) bool {
	asks := [2]ask{a, b}
	var heard [2]answer
	var come [2]func(func())
	for i := range asks {
		s := r.session(p, "victim")
		if s == nil {
			return false
		}
		defer s.Close()
		r.note(p, "victim")
		come[i] = func(begun func()) {
			begun()
			heard[i] = hear(s.Generate(r.ctx, asks[i].r), nil)
		}
	}
	r.behind(p, d, func() {}, come[:]...)
	refused := 0
	for i, h := range heard {
		switch {
		case !errors.Is(h.err, glm.ErrPoolExhausted):
			r.judge(p, "from the queue", asks[i], h, 0)
		case len(h.tokens) > 0 || h.finish.Reason != "":
			r.doubt("refused for a full queue after %d tokens", len(h.tokens))
		default:
			refused++
		}
	}
	if refused == len(heard) {
		r.doubt("the queue has one place, and two were refused")
	}
	return refused == 1
}

// leave reports whether a victim went away while it waited.
func (r *runner) leave(p *pool, d, a ask) bool {
	s := r.session(p, "impatient")
	if s == nil {
		return false
	}
	defer s.Close()
	r.note(p, "impatient")
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var heard answer
	gone := make(chan struct{})
	r.behind(p, d, func() { cancel(); <-gone }, func(begun func()) {
		defer close(gone)
		begun()
		heard = hear(s.Generate(ctx, a.r), nil)
	})
	if heard.err == nil {
		r.judge(p, "from the queue", a, heard, 0)
	} else if !errors.Is(heard.err, glm.ErrCanceled) {
		r.doubt("left the queue with %v", heard.err)
	}
	return heard.err != nil && heard.finish.Reason == ""
}

// requeue lets two requests grow side by side in a pool that holds one of them
// and little more, a victim beside the donor and then beside another victim: in
// mid-answer the pages of one go to the other tenant.
func (r *runner) requeue() {
	out := r.long[0].r.MaxTokens
	pages := (r.page-2+out)/r.page + 1
	gave := 0
	for _, pair := range []struct{ victims, donations []ask }{
		{r.long[:1], r.gift}, {r.long, nil},
	} {
		requeued := 0
		for try := 0; try < attempts && requeued == 0 && !r.doubted() && r.ctx.Err() == nil; try++ {
			r.door = atTheDoor << try
			p := r.pool(glm.PoolConfig{Tokens: (pages + 2) * r.page, Admission: glm.Clamp})
			if p == nil {
				return
			}
			r.together(p, pair.victims, pair.donations)
			p.mu.Lock()
			requeued = p.events["requeued"]
			p.mu.Unlock()
			r.settle(p)
		}
		if requeued == 0 && !r.doubted() {
			r.doubt("nothing was requeued: nothing was seen")
		}
		gave += requeued
	}
	r.seen("of 4 answers of %d tokens, %s to another tenant half-way", out, plural(gave, "gave its pages", "gave their pages"))
}
