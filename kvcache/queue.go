package kvcache

import (
	"context"
	"slices"
	"time"
)

// queue holds requests that wait for room. The next one is of the tenant that
// was served longest ago, and of its requests the first. It is not overtaken,
// however small the others are, so no request starves.
type queue struct {
	waiters []*waiter
	served  map[Scope]uint64 // when, counted in admissions
	count   uint64
}

type waiter struct {
	lease *Lease
	ready chan error // one value: nil when admitted
}

func (q *queue) next() *waiter {
	var best *waiter
	for _, w := range q.waiters {
		if w.lease.requeued {
			return w
		}
		if best == nil || q.served[w.lease.session.scope] < q.served[best.lease.session.scope] {
			best = w
		}
	}
	return best
}

func (q *queue) remove(l *Lease) *waiter {
	i := slices.IndexFunc(q.waiters, func(w *waiter) bool { return w.lease == l })
	if i < 0 {
		return nil
	}
	w := q.waiters[i]
	q.waiters = slices.Delete(q.waiters, i, i+1)
	return w
}

// serve notes that a scope had its turn.
func (q *queue) serve(s Scope) {
	if len(q.waiters) == 0 {
		q.served = nil // nobody to be fair to
		return
	}
	if q.served == nil {
		q.served = map[Scope]uint64{}
	}
	q.count++
	q.served[s] = q.count
}

// pump admits waiting requests while there is room.
func (p *Pool) pump() {
	for w := p.queue.next(); w != nil; w = p.queue.next() {
		p.admit = admit{w.lease.id, w.lease.known}
		_, err := p.apply(&p.admit)
		p.admit = admit{}
		if err == errNoRoom {
			return
		}
		if err == nil && w.lease.cause != CauseNone {
			err = w.lease.ended() // a page that it was to reuse is corrupt
		}
		if err == nil {
			w.lease.reused = int(p.core.lease(w.lease.id).valid)
		}
		if p.queue.remove(w.lease) != nil {
			p.queue.serve(w.lease.session.scope)
			w.ready <- err
		}
	}
}

// enter waits until the request is admitted: at most QueueWait, and only if
// the queue has a place. On error the caller ends the request, which lets the
// next one in. The lock is held, and released while it waits.
func (p *Pool) enter(ctx context.Context, l *Lease) error {
	w := &waiter{lease: l, ready: make(chan error, 1)}
	p.queue.waiters = append(p.queue.waiters, w)
	p.pump()
	select {
	case err := <-w.ready:
		return err
	default:
	}
	if !l.requeued && len(p.queue.waiters) > p.cfg.Queue {
		p.queue.remove(l)
		return p.exhausted(l)
	}
	p.mu.Unlock()
	timer := time.NewTimer(p.cfg.QueueWait)
	defer timer.Stop()
	var err error
	select {
	case err = <-w.ready:
		p.mu.Lock()
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = p.exhausted(l)
	}
	p.mu.Lock()
	if p.queue.remove(l) == nil {
		return <-w.ready // it was decided while we took the lock
	}
	return err
}

func (p *Pool) exhausted(l *Lease) error {
	need := len(l.known) + l.output
	if p.cfg.Admission == Clamp {
		need = min(need, len(l.known)+p.cfg.PageSize)
	}
	return &ExhaustedError{Need: need + p.cfg.Slack, RetryAfter: max(p.cfg.QueueWait, time.Second)}
}
