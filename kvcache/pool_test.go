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

// Forget returns when the tenant's rows are scrubbed, also those that a
// running request still reads; nobody else's pages are touched.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, store := testPool(t, 24, nil)
		a, b := session(t, p, "a"), session(t, p, "b")
		for _, s := range []*Session{a, b} {
			l := admitted(t, s, tokens(1, 10), 2)
			prefill(t, p, store, l)
			l.End(CauseStop, nil)
		}
		running := admitted(t, a, tokens(1, 20), 4)
		if running.Reused() != 8 {
			t.Fatal(running.Reused())
		}
		done := make(chan error)
		go func() { done <- p.Forget(t.Context(), "a") }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("returned (%v) while a request reads the tenant's rows", err)
		default:
		}
		// Its rows are found no more, and what it writes is not shared.
		fresh := admitted(t, a, tokens(1, 10), 2)
		if fresh.Reused() != 0 {
			t.Fatalf("found %d forgotten tokens", fresh.Reused())
		}
		fresh.End(CauseCancelled, nil)
		prefill(t, p, store, running)
		running.End(CauseStop, nil)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i, page := range store.pages {
			for _, r := range page.rows {
				if r.session == a.ID() {
					t.Fatalf("page %d still holds a row of the tenant", i)
				}
			}
		}
		if l := admitted(t, b, tokens(1, 10), 2); l.Reused() != 8 {
			t.Fatal("the neighbour was forgotten too")
		} else {
			l.End(CauseStop, nil)
		}
		// A context ends the wait, not the forgetting.
		running = admitted(t, b, tokens(1, 10), 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Forget(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		running.End(CauseStop, nil)
		synctest.Wait()
		if st := p.Stats(); st.Free != st.Pages {
			t.Fatalf("%+v", st)
		}
		var e *FieldError
		if err := p.Forget(t.Context(), ""); !errors.As(err, &e) {
			t.Fatal(err)
		}
		p.Close()
	})
}

// A session without a tenant takes its prefixes with it.
func TestCloseForgetsThePrivateSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, store := testPool(t, 8, nil)
		s := session(t, p, "")
		l := admitted(t, s, tokens(1, 10), 2)
		prefill(t, p, store, l)
		l.End(CauseStop, nil)
		if st := p.Stats(); st.Resting != 2 {
			t.Fatalf("%+v", st)
		}
		s.Close()
		synctest.Wait()
		if st := p.Stats(); st.Free != st.Pages {
			t.Fatalf("%+v", st)
		}
		p.Close()
	})
}

// The queue serves tenants in turn, and the first of a tenant first.
func TestQueueServesTenantsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := testPool(t, 4, func(c *Config) { c.Queue, c.QueueWait = 10, time.Minute })
		holder := admitted(t, session(t, p, "holder"), tokens(1, 15), 1)
		var order []string
		got := make(chan struct{})
		for _, name := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
			s := session(t, p, name[:1])
			go func() {
				l, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 15), MaxTokens: 1})
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name) // one at a time owns the pool
				l.End(CauseStop, nil)
				got <- struct{}{}
			}()
			synctest.Wait()
		}
		if st := p.Stats(); st.Waiting != 6 {
			t.Fatalf("%+v", st)
		}
		holder.End(CauseStop, nil)
		for range 6 {
			<-got
		}
		if have := strings.Join(order, " "); have != "a1 b1 c1 a2 b2 a3" {
			t.Error(have)
		}
		p.Close()
	})
}

// A large request at the head of the queue is not overtaken for ever.
func TestLargeRequestIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := testPool(t, 4, func(c *Config) { c.Queue, c.QueueWait = 10, time.Minute })
		s := session(t, p, "a")
		holder := admitted(t, s, tokens(1, 7), 1)
		large, small := make(chan *Lease), make(chan *Lease)
		go func() { l, _ := s.Admit(t.Context(), Request{Tokens: tokens(1, 15), MaxTokens: 1}); large <- l }()
		synctest.Wait()
		go func() { l, _ := s.Admit(t.Context(), Request{Tokens: tokens(1, 3), MaxTokens: 1}); small <- l }()
		synctest.Wait()
		select {
		case <-small:
			t.Fatal("overtaken")
		default:
		}
		holder.End(CauseStop, nil)
		l := <-large
		l.End(CauseStop, nil)
		l = <-small
		l.End(CauseStop, nil)
		p.Close()
	})
}

// The first terminal cause wins, whoever gives it, and stays readable.
func TestFirstCauseWins(t *testing.T) {
	p, _ := testPool(t, 8, nil)
	s := session(t, p, "a")
	l := admitted(t, s, tokens(1, 6), 2)
	cause := errors.New("the first")
	if c, err := l.End(CauseFailed, cause); c != CauseFailed || err != cause {
		t.Fatal(c, err)
	}
	other := admitted(t, s, tokens(1, 6), 2) // takes the slot
	for _, late := range []Cause{CauseStop, CauseLength, CauseCancelled} {
		if c, err := l.End(late, nil); c != CauseFailed || err != cause {
			t.Fatalf("%v overwrote it: %v, %v", late, c, err)
		}
	}
	if c, err := l.Cause(); c != CauseFailed || err != cause {
		t.Fatal(c, err)
	}
	if c, _ := other.Cause(); c != CauseNone {
		t.Fatalf("the slot's next request got %v", c)
	}
	other.End(CauseStop, nil)
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Pages: 9, PageSize: 4, Context: 32, Queue: 1, QueueWait: time.Second}
	for field, spoil := range map[string]func(*Config){
		"Pages":     func(c *Config) { c.Pages = 1 },
		"PageSize":  func(c *Config) { c.PageSize = 6 },
		"Context":   func(c *Config) { c.Context = 1 },
		"Slack":     func(c *Config) { c.Slack = -1 },
		"Admission": func(c *Config) { c.Admission = 2 },
		"Queue":     func(c *Config) { c.Queue = -1 },
		"QueueWait": func(c *Config) { c.QueueWait = 0 },
	} {
		c := good
		spoil(&c)
		var e *FieldError
		if _, err := New(c, newTagStore(9, 4)); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	var e *FieldError
	p, _ := testPool(t, 8, nil)
	s := session(t, p, "a")
	for _, r := range []Request{{}, {Tokens: tokens(1, 1)}, {MaxTokens: 1}, {Tokens: tokens(1, 1), MaxTokens: -1}} {
		if _, err := s.Admit(t.Context(), r); !errors.As(err, &e) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Whatever was freed is scrubbed before it is leased again: a store that
// poisons never shows an old row.
func TestFreedPagesAreScrubbed(t *testing.T) {
	p, store := testPool(t, 4, nil)
	a := session(t, p, "a")
	for i := range 6 {
		l := admitted(t, a, tokens(1000*i, 14), 2)
		s, err := p.Begin([]Entry{{l, 0, tokens(1000*i, 14)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range s.Arrays().Pages {
			for _, r := range store.pages[page].rows {
				if r != poison {
					t.Fatalf("round %d: page %d was leased with a row of position %d", i, page, r.pos)
				}
			}
		}
		if err := store.run(s.Arrays(), func(int, int, row) error { return nil }); err != nil {
			t.Fatal(err)
		}
		s.Complete(results(s))
		l.End(CauseStop, nil)
	}
	inside(p, func(c *core) {
		if len(c.s.leases) != 1 {
			t.Errorf("%d slots for one request at a time", len(c.s.leases))
		}
	})
}

// Closing ends the wait of requests that were never admitted.
func TestCloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := testPool(t, 4, func(c *Config) { c.Queue, c.QueueWait = 10, time.Minute })
		holder := admitted(t, session(t, p, "a"), tokens(1, 15), 1)
		a, b := session(t, p, "a"), session(t, p, "b")
		wait := func(s *Session) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 15), MaxTokens: 1})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		inA, inB := wait(a), wait(b)
		a.Close()
		if err := <-inA; !errors.Is(err, ErrSessionClosed) {
			t.Error(err)
		}
		p.Close()
		if err := <-inB; !errors.Is(err, ErrPoolClosed) {
			t.Error(err)
		}
		if c, err := holder.End(CauseStop, nil); c != CauseClosed || !errors.Is(err, ErrPoolClosed) {
			t.Error(c, err)
		}
		p.Close()
	})
}

// slowStore takes a second to scrub.
type slowStore struct{ *tagStore }

func (s slowStore) Scrub(pages ...int) {
	time.Sleep(time.Second)
	s.tagStore.Scrub(pages...)
}

// Scrubbing is done outside the lock: it delays only who needs the pages.
func TestScrubbingDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Pages: 9, PageSize: 4, Context: 32}, slowStore{newTagStore(9, 4)})
		if err != nil {
			t.Fatal(err)
		}
		s := session(t, p, "")
		l := admitted(t, s, tokens(1, 6), 2)
		st, err := p.Begin([]Entry{{l, 0, tokens(1, 6)}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		st.Abort()
		l.End(CauseCancelled, nil)
		synctest.Wait() // the janitor is in the store
		if st := p.Stats(); st.Dirty != 2 || time.Since(start) != 0 {
			t.Fatalf("%+v after %v", st, time.Since(start))
		}
		// Whoever needs those very pages waits for them, and only for them.
		l = admitted(t, s, tokens(1, 30), 2)
		st, err = p.Begin([]Entry{{l, 0, tokens(1, 24)}})
		if err != nil || time.Since(start) != 0 {
			t.Fatal(err, time.Since(start))
		}
		st.Complete(results(st))
		st, err = p.Begin([]Entry{{l, 24, tokens(25, 6)}})
		if err != nil || time.Since(start) != time.Second {
			t.Fatal(err, time.Since(start))
		}
		st.Abort()
		l.End(CauseStop, nil)
		p.Close()
	})
}

// Who leaves the queue lets the next one in.
func TestLeavingTheQueueMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := testPool(t, 4, func(c *Config) { c.Queue, c.QueueWait = 10, time.Second })
		s := session(t, p, "a")
		holder := admitted(t, s, tokens(1, 7), 1)
		start := time.Now()
		large := make(chan error, 1)
		go func() {
			_, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 15), MaxTokens: 1})
			large <- err
		}()
		time.Sleep(time.Second / 2)
		l := admitted(t, s, tokens(1, 3), 1)
		if waited := time.Since(start); waited != time.Second || !errors.Is(<-large, ErrPoolExhausted) {
			t.Error(waited)
		}
		l.End(CauseStop, nil)
		holder.End(CauseStop, nil)
		p.Close()
	})
}
