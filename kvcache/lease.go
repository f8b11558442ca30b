package kvcache

import (
	"context"
	"fmt"
	"slices"
)

// Lease is one admitted request. It is the caller's from Admit to End, and End
// must be called whatever happens.
type Lease struct {
	pool     *Pool
	session  *Session
	id       leaseID
	known    []int32 // tokens it was admitted with
	prompt   int
	output   int
	reused   int
	requeued bool
	ticket   Ticket // issued or accepted

	cause Cause // terminal; copied from the core so that it outlives the slot
	err   error
	done  bool // End was called
}

// Request is the identity of the request, unique in the pool's lifetime.
func (l *Lease) Request() uint64 { return l.id.request }

// Session is the session that the request belongs to.
func (l *Lease) Session() *Session { return l.session }

// MaxTokens is the output that the request may have: what was asked for, or
// under [Clamp] what the context leaves.
func (l *Lease) MaxTokens() int { return l.output }

// Reused is how many positions the present admission took from the prefix
// index: exactly the pages that its page table shares.
func (l *Lease) Reused() int {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.reused
}

// Valid is the mark: positions [0, Valid) are written and may be read. The
// next step's tokens start there.
func (l *Lease) Valid() int {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if c := l.live(); c != nil {
		return int(c.valid)
	}
	return 0
}

// live returns the core's lease while the request runs. The lock is held.
func (l *Lease) live() *lease {
	if c := l.pool.core.lease(l.id); c != nil && c.phase == phaseLive {
		return c
	}
	return nil
}

// ended is why the request is over, or ErrEnded if nothing failed.
func (l *Lease) ended() error {
	if l.err != nil {
		return l.err
	}
	return ErrEnded
}

// End gives the request its terminal state and takes its pages: the full ones
// rest in the prefix index, the rest and the unused reservation return at
// once, quarantined while a step in flight holds them. The first cause wins:
// End returns it with its error, also when the request ended by itself
// (CauseContext, CauseFailed), by Close, or by an earlier End.
func (l *Lease) End(cause Cause, err error) (Cause, error) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.end(cause, err)
}

func (l *Lease) end(cause Cause, err error) (Cause, error) {
	if l.done {
		return l.cause, l.err
	}
	p := l.pool
	fx, bad := p.apply(end{l.id, cause})
	if bad != nil {
		return l.cause, bad
	}
	if fx.won {
		l.cause, l.err = cause, err
	}
	l.done = true
	p.apply(release{l.id})
	delete(p.leases, l.id.request)
	p.pump()
	return l.cause, l.err
}

// Cause returns the terminal cause and its error; CauseNone while there is none.
func (l *Lease) Cause() (Cause, error) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.cause, l.err
}

// Readmit waits for room again after [ErrRequeued], ahead of all others.
// tokens are the prompt and the output so far; their rows are computed again,
// but for what the index still has. A failure ends the request.
func (l *Lease) Readmit(ctx context.Context, tokens []int32) error {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.core.lease(l.id)
	if c == nil || c.phase != phaseWaiting {
		return l.ended()
	}
	if len(tokens) < l.prompt || !slices.Equal(tokens[:l.prompt], l.known[:l.prompt]) {
		return &FieldError{Field: "tokens", Want: fmt.Sprintf("the prompt of %d tokens and the output so far", l.prompt), Have: fmt.Sprintf("%d others", len(tokens))}
	}
	l.known, l.requeued = slices.Clone(tokens), true
	if err := p.enter(ctx, l); err != nil {
		l.end(CauseFailed, err)
		return err
	}
	if l.done { // ended between its admission and here
		return l.ended()
	}
	return nil
}
