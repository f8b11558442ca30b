package kvcache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifeOfARequest(t *testing.T) {
	p, store := testPool(t, 8, nil)
	s := session(t, p, "acme")
	l := admitted(t, s, tokens(10, 6), 4)
	if st := p.Stats(); st.Reserved != 3 || st.Running != 1 {
		t.Fatalf("after Admit: %+v", st)
	}
	prefill(t, p, store, l)
	decode(t, p, store, l, 90, 91)
	if v := l.Valid(); v != 8 {
		t.Fatalf("mark %d, want 8", v)
	}
	if st := p.Stats(); st.Shared != 2 || st.Writable != 0 || st.Reserved != 1 {
		t.Fatalf("while running: %+v", st)
	}
	if c, err := l.End(CauseStop, nil); c != CauseStop || err != nil {
		t.Fatal(c, err)
	}
	if st := p.Stats(); st.Resting != 2 || st.Reserved != 0 || st.Running != 0 {
		t.Fatalf("after End: %+v", st)
	}
	// The next turn finds both pages.
	next := append(append(tokens(10, 6), 90, 91), tokens(50, 3)...)
	l = admitted(t, s, next, 4)
	if l.Reused() != 8 {
		t.Fatalf("reused %d, want 8", l.Reused())
	}
	prefill(t, p, store, l)
	l.End(CauseLength, nil)
}

func TestNothingCrossesScopes(t *testing.T) {
	p, store := testPool(t, 40, nil)
	prompt := tokens(1, 9)
	run := func(s *Session) int {
		l := admitted(t, s, prompt, 1)
		defer l.End(CauseStop, nil)
		prefill(t, p, store, l)
		return l.Reused()
	}
	a1, a2, b := session(t, p, "a"), session(t, p, "a"), session(t, p, "b")
	n1, n2 := session(t, p, ""), session(t, p, "")
	for _, c := range []struct {
		name string
		s    *Session
		want int
	}{
		{"first of tenant a", a1, 0},
		{"same session", a1, 8},
		{"other session of a", a2, 8},
		{"tenant b", b, 0},
		{"no tenant", n1, 0},
		{"no tenant, another session", n2, 0},
		{"no tenant, same session", n1, 8},
	} {
		if have := run(c.s); have != c.want {
			t.Errorf("%s: reused %d, want %d", c.name, have, c.want)
		}
	}
}

func TestHitEndsBeforeTheLastToken(t *testing.T) {
	p, store := testPool(t, 8, nil)
	s := session(t, p, "a")
	l := admitted(t, s, tokens(1, 8), 1)
	prefill(t, p, store, l)
	l.End(CauseStop, nil)
	for _, c := range []struct{ n, want int }{{3, 0}, {4, 0}, {5, 4}, {8, 4}, {9, 8}} {
		l := admitted(t, s, tokens(1, c.n), 1)
		if l.Reused() != c.want {
			t.Errorf("prompt of %d: reused %d, want %d", c.n, l.Reused(), c.want)
		}
		l.End(CauseCancelled, nil)
	}
}

func TestLimitIsOneNumber(t *testing.T) {
	p, _ := testPool(t, 16, func(c *Config) { c.Context, c.AllowSmallerPool = 1024, true })
	lim := p.Limits()
	if lim.Context != 64 || lim.Pool != 64 || lim.Binding != LimitPool || lim.Prompt != 63 {
		t.Fatalf("limits %+v", lim)
	}
	s := session(t, p, "a")
	for _, c := range []struct {
		prompt, output int
		ok             bool
	}{{63, 1, true}, {64, 1, false}, {60, 4, true}, {60, 5, false}, {1, 63, true}, {1023, 1, false}, {1, 1 << 62, false}} {
		l, err := s.Admit(t.Context(), Request{Tokens: tokens(0, c.prompt), MaxTokens: c.output})
		if c.ok {
			if err != nil {
				t.Fatalf("%d + %d: %v", c.prompt, c.output, err)
			}
			l.End(CauseCancelled, nil)
			continue
		}
		var e *ContextError
		if !errors.As(err, &e) || !errors.Is(err, ErrContextExceedsPool) || e.Prompt != c.prompt || e.Output != c.output || e.Max != 64 {
			t.Fatalf("%d + %d: %v", c.prompt, c.output, err)
		}
		if !strings.Contains(err.Error(), "maximum context length is 64 tokens") {
			t.Fatal(err)
		}
	}
	if st := p.Stats(); st.Free != st.Pages || st.Running+st.Waiting != 0 {
		t.Fatalf("refusals left something behind: %+v", st)
	}
}

func TestPoolSmallerThanContextIsRefusedAtStart(t *testing.T) {
	_, err := New(Config{Pages: 17, PageSize: 4, Context: 256}, newTagStore(17, 4))
	var e *ContextError
	if !errors.As(err, &e) || !errors.Is(err, ErrContextExceedsPool) || e.Max != 64 || e.Prompt != 256 {
		t.Fatal(err)
	}
}

func TestQueueDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := testPool(t, 4, func(c *Config) { c.Queue, c.QueueWait = 1, time.Second })
		s := session(t, p, "a")
		l := admitted(t, s, tokens(1, 8), 8)
		start := time.Now()
		waited := make(chan error)
		go func() {
			_, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 8), MaxTokens: 4})
			waited <- err
		}()
		synctest.Wait()
		_, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 4), MaxTokens: 4})
		var e *ExhaustedError
		if !errors.As(err, &e) || e.Need != 8 || e.RetryAfter != time.Second || time.Since(start) != 0 {
			t.Fatalf("queue full: %v after %v", err, time.Since(start))
		}
		err = <-waited
		if !errors.As(err, &e) || !errors.Is(err, ErrPoolExhausted) || e.Need != 12 || time.Since(start) != time.Second {
			t.Fatalf("wait expired: %v after %v", err, time.Since(start))
		}
		// A waiting request is admitted when room comes, and one whose context
		// ends leaves at once.
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := s.Admit(ctx, Request{Tokens: tokens(1, 8), MaxTokens: 4})
			waited <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		go func() {
			l, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 8), MaxTokens: 4})
			if err == nil {
				l.End(CauseStop, nil)
			}
			waited <- err
		}()
		synctest.Wait()
		l.End(CauseStop, nil)
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		p.Close()
	})
}

func TestCloseEndsWhatRuns(t *testing.T) {
	p, store := testPool(t, 8, nil)
	s := session(t, p, "")
	l := admitted(t, s, tokens(1, 6), 2)
	st, err := p.Begin([]Entry{{l, 0, tokens(1, 6)}})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if got := p.Stats(); got.Quarantined != 2 {
		t.Fatalf("closed during a step: %+v", got)
	}
	if err := st.Check(st.Arrays()); err != nil {
		t.Fatalf("the running step is still bound: %v", err)
	}
	if err := store.run(st.Arrays(), func(int, int, row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if out := st.Complete(results(st)); !errors.Is(out[0], ErrSessionClosed) {
		t.Fatal(out)
	}
	if c, err := l.End(CauseStop, nil); c != CauseClosed || !errors.Is(err, ErrSessionClosed) {
		t.Fatal(c, err)
	}
	if got := p.Stats(); got.Quarantined != 0 || got.Resting != 0 {
		t.Fatalf("after the step: %+v", got)
	}
	if _, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 1), MaxTokens: 1}); !errors.Is(err, ErrSessionClosed) {
		t.Fatal(err)
	}
	p.Close()
	if _, err := p.NewSession("x"); !errors.Is(err, ErrPoolClosed) {
		t.Fatal(err)
	}
}
