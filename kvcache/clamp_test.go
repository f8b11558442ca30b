package kvcache

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func clamp(c *Config) { c.Admission, c.Queue, c.QueueWait = Clamp, 4, time.Second }

func TestClampCutsOutputNeverThePrompt(t *testing.T) {
	p, _ := testPool(t, 8, clamp)
	s := session(t, p, "a")
	for _, c := range []struct{ prompt, output, want int }{{10, 5, 5}, {10, 22, 22}, {10, 1000, 22}, {31, 1000, 1}} {
		l := admitted(t, s, tokens(100, c.prompt), c.output)
		if l.MaxTokens() != c.want {
			t.Errorf("%d + %d: output %d, want %d", c.prompt, c.output, l.MaxTokens(), c.want)
		}
		l.End(CauseStop, nil)
	}
	var e *ContextError
	if _, err := s.Admit(t.Context(), Request{Tokens: tokens(0, 32), MaxTokens: 1}); !errors.As(err, &e) || e.Prompt != 32 || e.Max != 32 {
		t.Fatal(err)
	}
}

// When nobody can be promised a page, the youngest gives way, once.
func TestYoungestIsRequeuedOnce(t *testing.T) {
	p, store := testPool(t, 8, clamp)
	s := session(t, p, "a")
	old := admitted(t, s, tokens(100, 8), 24)
	young := admitted(t, s, tokens(200, 8), 24)
	prefill(t, p, store, old)
	prefill(t, p, store, young)
	decode(t, p, store, young, 1, 2, 3, 4)
	decode(t, p, store, old, tokens(300, 12)...)
	// 5 pages of old, 3 of young: the next page of old is young's.
	st, err := p.Begin([]Entry{{young, 12, []int32{5}}, {old, 20, []int32{9}}})
	if err != nil {
		t.Fatal(err)
	}
	if r := st.Refused(); len(r) != 1 || r[0].Lease != young || r[0].Err != ErrRequeued {
		t.Fatalf("refused %+v", r)
	}
	if err := st.Check(st.Arrays()); err != nil {
		t.Fatal(err)
	}
	for _, err := range st.Complete(results(st)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if c, _ := young.Cause(); c != CauseNone {
		t.Fatalf("requeued is not an end: %v", c)
	}
	old.End(CauseStop, nil)
	said := append(tokens(200, 8), 1, 2, 3, 4, 5)
	if err := young.Readmit(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	if young.Reused() == 0 {
		t.Error("nothing was found again")
	}
	prefill(t, p, store, young)
	// It has given way once and is not asked again: the newcomer goes.
	newcomer := admitted(t, s, tokens(400, 8), 24)
	prefill(t, p, store, newcomer)
	decode(t, p, store, young, tokens(600, 8)...)
	st, _ = p.Begin([]Entry{{newcomer, 8, tokens(500, 8)}, {young, 21, []int32{6, 6, 6, 6}}})
	if r := st.Refused(); len(r) != 1 || r[0].Lease != newcomer || r[0].Err != ErrRequeued {
		t.Fatalf("refused %+v", r)
	}
	st.Abort()
	young.End(CauseStop, nil)
	newcomer.End(CauseStop, nil)
}

func TestReadmitKeepsThePrompt(t *testing.T) {
	p, store := testPool(t, 8, clamp)
	s := session(t, p, "a")
	old, young := admitted(t, s, tokens(100, 8), 24), admitted(t, s, tokens(200, 8), 24)
	prefill(t, p, store, old)
	prefill(t, p, store, young)
	st, err := p.Begin([]Entry{{old, 8, tokens(300, 16)}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Abort()
	var e *FieldError
	for _, bad := range [][]int32{tokens(200, 7), tokens(201, 8), nil} {
		if err := young.Readmit(t.Context(), bad); !errors.As(err, &e) {
			t.Fatalf("%d tokens: %v", len(bad), err)
		}
	}
	young.End(CauseCancelled, nil)
	if err := young.Readmit(t.Context(), tokens(200, 8)); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
}

// Nobody left to give way: the request ends as context, with its output so far.
func TestNoVictimEndsAsContext(t *testing.T) {
	p, store := testPool(t, 8, clamp)
	s := session(t, p, "a")
	a, b := admitted(t, s, tokens(100, 8), 24), admitted(t, s, tokens(200, 8), 24)
	prefill(t, p, store, a)
	prefill(t, p, store, b)
	inside(p, func(c *core) {
		for i := range c.s.leases {
			c.s.leases[i].requeued = true
		}
	})
	decode(t, p, store, b, tokens(300, 8)...)
	decode(t, p, store, a, tokens(400, 8)...)
	st, _ := p.Begin([]Entry{{a, 16, []int32{1}}, {b, 16, []int32{1}}})
	if r := st.Refused(); len(r) != 1 || r[0].Lease != a {
		t.Fatalf("refused %+v", r)
	}
	if c, err := a.End(CauseStop, nil); c != CauseContext || err != nil {
		t.Fatal(c, err)
	}
	st.Abort()
	b.End(CauseStop, nil)
}

// While a step of somebody else is in flight, nobody is sure that there is no
// room: the growing request neither ends nor runs.
func TestGrowingWaitsForStepsInFlight(t *testing.T) {
	p, store := testPool(t, 8, clamp)
	s := session(t, p, "a")
	a, b := admitted(t, s, tokens(100, 8), 24), admitted(t, s, tokens(200, 8), 24)
	prefill(t, p, store, a)
	prefill(t, p, store, b)
	decode(t, p, store, b, tokens(300, 7)...)
	decode(t, p, store, a, tokens(400, 8)...)
	inside(p, func(c *core) { c.lease(a.id).requeued = true }) // it gives way no more
	flight, _ := p.Begin([]Entry{{b, 15, []int32{1}}})
	var e *ExhaustedError
	if err := refusedOne(t, p, Entry{a, 16, []int32{1}}); !errors.As(err, &e) {
		t.Fatal(err)
	}
	if c, _ := a.Cause(); c != CauseNone {
		t.Fatalf("ended as %v", c)
	}
	flight.Abort()
	st, _ := p.Begin([]Entry{{a, 16, []int32{1}}})
	inside(p, func(c *core) {
		if len(st.Refused()) != 0 || c.lease(b.id).phase != phaseWaiting {
			t.Fatalf("after the step: %+v", st.Refused())
		}
	})
	st.Abort()
	a.End(CauseStop, nil)
	b.End(CauseStop, nil)
}

// A requeued request waits ahead of everybody, and no longer than QueueWait.
func TestReadmitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, store := testPool(t, 8, clamp)
		s := session(t, p, "a")
		old, young := admitted(t, s, tokens(100, 8), 24), admitted(t, s, tokens(200, 8), 24)
		prefill(t, p, store, old)
		prefill(t, p, store, young)
		step(t, p, store, Entry{old, 8, tokens(300, 24)})
		start := time.Now()
		if err := young.Readmit(t.Context(), tokens(200, 8)); !errors.Is(err, ErrPoolExhausted) || time.Since(start) != time.Second {
			t.Fatal(err, time.Since(start))
		}
		if c, err := young.End(CauseStop, nil); c != CauseFailed || !errors.Is(err, ErrPoolExhausted) {
			t.Fatal(c, err)
		}
		old.End(CauseLength, nil)
		p.Close()
	})
}

// A request that is ended between its second admission and the return of Readmit
// says so.
func TestEndedWhileReadmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, store := testPool(t, 8, clamp)
		s := session(t, p, "a")
		old, young := admitted(t, s, tokens(100, 8), 24), admitted(t, s, tokens(200, 8), 24)
		prefill(t, p, store, old)
		prefill(t, p, store, young)
		step(t, p, store, Entry{old, 8, tokens(300, 24)})
		got := make(chan error)
		go func() { got <- young.Readmit(t.Context(), tokens(200, 8)) }()
		synctest.Wait()
		gone := errors.New("the caller went away")
		p.mu.Lock() // both before the waiter can take the lock
		old.end(CauseLength, nil)
		young.end(CauseCancelled, gone)
		p.mu.Unlock()
		if err := <-got; !errors.Is(err, gone) {
			t.Errorf("readmitted with %v, want %v", err, gone)
		}
		p.Close()
	})
}

func TestRequeuedIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, store := testPool(t, 8, clamp)
		s := session(t, p, "a")
		old, young := admitted(t, s, tokens(100, 8), 24), admitted(t, s, tokens(200, 8), 24)
		prefill(t, p, store, old)
		prefill(t, p, store, young)
		step(t, p, store, Entry{old, 8, tokens(300, 24)})
		var order []string
		got := make(chan struct{})
		enter := func(name string, f func() error) {
			go func() {
				if err := f(); err != nil {
					t.Error(err)
				}
				order = append(order, name)
				got <- struct{}{}
			}()
			synctest.Wait()
		}
		var other *Lease
		enter("new", func() (err error) {
			other, err = session(t, p, "b").Admit(t.Context(), Request{Tokens: tokens(400, 24), MaxTokens: 8})
			return err
		})
		enter("requeued", func() error { return young.Readmit(t.Context(), tokens(200, 8)) })
		old.End(CauseLength, nil)
		<-got // there is not room for both
		if order[0] != "requeued" {
			t.Error(order)
		}
		young.End(CauseStop, nil)
		<-got
		other.End(CauseStop, nil)
		p.Close()
	})
}
