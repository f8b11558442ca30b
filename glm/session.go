package glm

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/cofferdam-ml/cofferdam/kvcache"
)

// Session is a conversation. Each request brings the whole of it; the session
// computes only what is new. It runs one generation at a time.
type Session struct {
	pool  *KVPool
	label string
	inner *kvcache.Session
	tag   string // the tenant, for taking turns

	mu     sync.Mutex
	busy   bool
	active *generation // the admitted generation, nil before and after
	stop   context.CancelCauseFunc
	closed error
	usage  Usage
	random *rand.Rand // drawn from by one generation at a time
}

func newSession(p *KVPool, c SessionConfig, inner *kvcache.Session) *Session {
	var seed [16]byte
	cryptorand.Read(seed[:]) // never fails
	return &Session{
		pool: p, label: c.Label, inner: inner, tag: c.Tenant,
		random: rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:]))),
	}
}

// Generate answers a request as a stream of events. Nothing runs until it is
// ranged over; from then to the end of the loop the session is busy, and a
// second range yields ErrSessionBusy.
//
// A refused request yields its error and nothing else. Once admitted, the last
// event is a Finish, whatever happens; if the generation failed or was
// cancelled, one error follows it. Leaving the loop early cancels the rest, and
// the session may be used again at once. When ctx ends, the stream ends without
// waiting for the computation.
func (s *Session) Generate(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if ctx == nil {
			yield(nil, invalid("ctx", "is nil"))
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if err := s.acquire(cancel); err != nil {
			yield(nil, err)
			return
		}
		defer s.release()
		g, err := s.admit(ctx, &r)
		if err != nil {
			yield(nil, s.refusal(ctx, err))
			return
		}
		g.stream(ctx, yield)
	}
}

// acquire takes the session for one generation.
func (s *Session) acquire(cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed != nil:
		return s.closed
	case s.busy:
		return ErrSessionBusy
	}
	s.busy, s.stop, s.usage = true, cancel, Usage{}
	return nil
}

func (s *Session) release() {
	s.mu.Lock()
	g := s.active
	if g != nil {
		s.usage = g.counted()
	}
	u := s.usage
	s.busy, s.active, s.stop = false, nil, nil
	s.mu.Unlock()
	if g != nil {
		s.pool.model.logger.Debug("generation ended", "session", s.inner.ID(), "label", s.label, "reason", string(g.reason()),
			"prompt", u.Prompt, "cached", u.Cached, "output", u.Output, "reasoning", u.Reasoning)
	}
}

// admit renders the request, waits for room and hands it to the scheduler.
func (s *Session) admit(ctx context.Context, r *Request) (*generation, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	p, err := s.pool.model.prompt(r)
	if err != nil {
		return nil, err
	}
	lease, err := s.inner.Admit(ctx, kvcache.Request{Tokens: p.ids, MaxTokens: cmp.Or(r.MaxTokens, s.pool.maxTokens)})
	if err != nil {
		return nil, err
	}
	g, err := newGeneration(s, r, p, lease)
	if err != nil {
		lease.End(kvcache.CauseFailed, err)
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	if closed == nil {
		s.active = g
	}
	s.mu.Unlock()
	if closed != nil {
		lease.End(kvcache.CauseClosed, closed)
		return nil, closed
	}
	s.pool.sched.add(g)
	return g, nil
}

// refusal gives the error of a request that was not admitted the form that
// callers test for: why it was closed, or that the context ended.
func (s *Session) refusal(ctx context.Context, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed != nil:
		return s.closed
	case ctx.Err() != nil && !errors.Is(err, ErrCanceled) && errors.Is(err, ctx.Err()):
		return cancelled(ctx)
	}
	return err
}

// Usage returns what the last generation used, also one that was left early.
// While one runs it is zero.
func (s *Session) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage
}

// Close ends a running generation with ErrSessionClosed. What a session without
// a tenant computed is forgotten. Idempotent.
func (s *Session) Close() error {
	s.end(ErrSessionClosed)
	s.pool.mu.Lock()
	delete(s.pool.sessions, s)
	s.pool.mu.Unlock()
	return nil
}

// end closes the session for a reason; the first one stays.
func (s *Session) end(why error) {
	s.mu.Lock()
	if s.closed == nil {
		s.closed = why
	}
	g, stop := s.active, s.stop
	s.mu.Unlock()
	if g != nil {
		g.finish(kvcache.CauseClosed, why)
	}
	if stop != nil {
		stop(why) // ends the wait for room
	}
	s.inner.Close()
}

// Collect reads a stream to its end. On error the reply is what had come.
func Collect(stream iter.Seq2[Event, error]) (*Reply, error) {
	r := &Reply{}
	if stream == nil {
		return r, invalid("stream", "is nil")
	}
	for ev, err := range stream {
		if err != nil {
			return r, err
		}
		switch ev := ev.(type) {
		case ReasoningDelta:
			r.Reasoning += ev.Text
		case TextDelta:
			r.Text += ev.Text
		case ToolCall:
			r.ToolCalls = append(r.ToolCalls, ev)
		case BadToolCall:
			r.BadToolCalls = append(r.BadToolCalls, ev)
		case Token:
			r.Tokens = append(r.Tokens, ev)
		case Finish:
			r.Finish = ev
		}
	}
	return r, nil
}

// Reply is a whole answer.
type Reply struct {
	Reasoning    string
	Text         string
	ToolCalls    []ToolCall
	BadToolCalls []BadToolCall
	Tokens       []Token // of requests that report them
	Finish               // how it ended, what it used, and the message to append
}
