package launchcheck

import (
	"context"
	"errors"
	"sync"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// attempts is how often a situation that needs two requests to meet is tried.
const attempts = 8

// queue fills a pool and its queue: one victim waits and is answered on the
// donor's pages, the next is refused, one more leaves the queue.
func (r *runner) queue() {
	p := r.pool(glm.PoolConfig{Tokens: 3 * r.page, Queue: 1})
	if p == nil {
		return
	}
	p.loose = true
	limit := p.Limits().Context
	met := false
	for try := 0; try < attempts && !met && !r.doubted(); try++ {
		met = r.meet(p, r.donation(4, limit-4), r.asks[try%len(r.asks)])
	}
	if !met && !r.doubted() {
		r.doubt("no request ever waited for another: nothing was seen")
	}
	r.settle(p)
	r.seen("one waited and was answered, one was refused, one left the queue")
}

// meet reports whether the victim had to wait for the donor.
func (r *runner) meet(p *pool, d, a ask) (met bool) {
	var wg sync.WaitGroup
	r.generate(r.ctx, p, "donor", d, func(tokens int) bool {
		if tokens > 1 {
			return false
		}
		// One that goes away while it waits.
		ctx, cancel := context.WithCancel(r.ctx)
		gone := make(chan struct{})
		var left answer
		go func() {
			defer close(gone)
			left = r.generate(ctx, p, "impatient", a, nil)
		}()
		waited := r.await(p, gone, func(s glm.PoolStats) bool { return s.Waiting == 1 })
		cancel()
		<-gone
		if !waited {
			return false
		}
		if !errors.Is(left.err, glm.ErrCanceled) || len(left.tokens) > 0 {
			r.doubt("left the queue with %d tokens and %v", len(left.tokens), left.err)
		}
		// One that is answered once the donor is gone.
		answered := make(chan struct{})
		wg.Go(func() {
			defer close(answered)
			r.judge(p, "from the queue", a, r.generate(r.ctx, p, "victim", a, nil), 0)
		})
		if !r.await(p, answered, func(s glm.PoolStats) bool { return s.Waiting == 1 }) {
			return false
		}
		// One for which there is no place.
		third := r.generate(r.ctx, p, "third", a, nil)
		switch {
		case third.err == nil:
			r.judge(p, "instead of being refused", a, third, 0) // the donor had gone
			return false
		case !errors.Is(third.err, glm.ErrPoolExhausted) || len(third.tokens) > 0:
			r.doubt("with the queue full: %d tokens and %v", len(third.tokens), third.err)
		}
		met = true
		return false
	})
	wg.Wait()
	if err := p.Forget(r.ctx, "victim"); err != nil { // the next try begins cold
		r.doubt("forget: %v", err)
	}
	return met
}

// requeue lets two victims and the donor grow side by side in a pool that
// cannot hold all three: somebody's pages go to another tenant in mid-answer.
func (r *runner) requeue() {
	requeued := 0
	for try := 0; try < attempts && requeued == 0 && !r.doubted() && r.ctx.Err() == nil; try++ {
		p := r.pool(glm.PoolConfig{Tokens: 5 * r.page, Admission: glm.Clamp})
		if p == nil {
			return
		}
		r.together(p, r.long, []ask{r.donation(r.page-2, longOut)})
		p.mu.Lock()
		requeued = p.events["requeued"]
		p.mu.Unlock()
		r.settle(p)
	}
	if requeued == 0 && !r.doubted() {
		r.doubt("nothing was requeued: nothing was seen")
	}
	r.seen("%s gave pages to another tenant in mid-answer", plural(requeued, "request"))
}
