package kvcache

import (
	"context"
	"slices"
)

// Session is a conversation. Between requests it owns and pins nothing: its
// full pages rest in the prefix index, evictable, for its next turn to find.
// Sessions of one tenant find each other's; a session without a tenant finds
// its own only, and they are forgotten when it closes.
type Session struct {
	pool   *Pool
	id     uint64
	scope  Scope
	digest string
	closed bool
}

// NewSession opens a session. The empty tenant shares with nobody, not even
// with another session of the empty tenant.
func (p *Pool) NewSession(tenant string) (*Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil, ErrPoolClosed
	}
	p.last++
	s := &Session{pool: p, id: p.last, scope: Scope{Tenant: tenant}, digest: digest(tenant)}
	if tenant == "" {
		s.scope = Scope{Session: s.id}
	}
	p.sessions[s.id] = s
	return s, nil
}

// ID is unique in the lifetime of the pool.
func (s *Session) ID() uint64 { return s.id }

// Close ends the session's requests with [ErrSessionClosed]; pages that a step
// in flight holds are quarantined until it ends. Idempotent.
func (s *Session) Close() error {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closed || p.closing {
		s.closed = true
		return nil
	}
	s.closed = true
	p.apply(shut{session: s.id})
	if s.scope.Session != 0 {
		p.apply(forget{scope: s.scope})
	}
	delete(p.sessions, s.id)
	p.pump()
	return nil
}

// Request is what a lease is asked for.
type Request struct {
	Tokens    []int32 // the prompt, never cut
	MaxTokens int     // output; under Clamp it may be cut, see [Lease.MaxTokens]
	Remote    bool    // a peer computes the prompt: see [Lease.Ticket]
}

// Admit waits until the request can own everything that the policy demands,
// and reserves it. A request above the limit is refused before any work with a
// [*ContextError]; one that finds the queue full, or waits longer than
// QueueWait, with an [*ExhaustedError].
//
// Tokens that the scope has sealed before are reused up to the last full page,
// but never all: the last token is computed again, because only rows are kept.
func (s *Session) Admit(ctx context.Context, r Request) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closing:
		return nil, ErrPoolClosed
	case s.closed:
		return nil, ErrSessionClosed
	}
	fx, err := p.apply(submit{session: s.id, scope: s.scope, prompt: len(r.Tokens), output: r.MaxTokens, remote: r.Remote})
	if err != nil {
		return nil, err
	}
	if fx.refusal != nil {
		p.apply(release{fx.id})
		return nil, fx.refusal
	}
	l := &Lease{pool: p, session: s, id: fx.id, known: slices.Clone(r.Tokens), prompt: len(r.Tokens)}
	l.output = int(p.core.lease(l.id).limit) - l.prompt
	p.leases[l.id.request] = l
	if err := p.enter(ctx, l); err != nil {
		cause := CauseRefused
		if ctx.Err() != nil {
			cause = CauseCancelled
		}
		l.end(cause, err)
		return nil, err
	}
	return l, nil
}
