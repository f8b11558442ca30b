package glm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/glmtest"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// patience is how long a test waits for what must happen, before it fails.
const patience = 30 * time.Second

// soon waits until done is closed.
func soon[T any](t testing.TB, what string, done <-chan T) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("%s did not happen", what)
	}
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s did not come to be", what)
			return
		}
	}
}

// endless asks for n tokens and bars the ids that would end the reply before.
func endless(vocab, prompt, n int, seed uint64) glm.Request {
	r := glm.Request{MaxTokens: n, Sampling: &glm.Sampling{TopLogProbs: 5, LogitBias: map[int32]float32{}}}
	for id := range int32(4) {
		r.Sampling.LogitBias[int32(vocab)-1-id] = -1e4
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for range prompt {
		r.Tokens = append(r.Tokens, rng.Int32N(int32(vocab)-4))
	}
	return r
}

// rowsOf returns how many rows of a step are a session's, and where they begin.
func rowsOf(s *backend.Step, session uint64) (rows, at int) {
	for q, id := range s.Session {
		if id == session {
			return int(s.QStart[q+1] - s.QStart[q]), int(s.Pos[s.QStart[q]])
		}
	}
	return 0, 0
}

// A context that ends before, during or after any step of a prompt or of
// decoding ends the stream while that step still runs; a loop may be left at any
// token. The neighbour in the same steps says what it says alone, in as many
// steps, and nothing of it is computed twice.
func TestCancelPoints(t *testing.T) {
	const chunk, decoded = 64, 7 // rows of a prompt in a step; tokens to be cancelled at
	var (
		mu        sync.Mutex
		neighbour uint64 // its session
		reached   int    // positions of the neighbour that were fed
		victim    int    // steps that held rows of another session
		at        int    // the step of the victim that is struck
		moment    string
		strike    func()
		rest      glm.Request // the neighbour's
		joined    func()      // returns when the victim is there
	)
	see := func(when string, s *backend.Step) {
		mu.Lock()
		defer mu.Unlock()
		if neighbour == 0 {
			return
		}
		if when == "before" && reached > 0 {
			joined()
		}
		rows, from := rowsOf(s, neighbour)
		others := s.Seqs()
		if rows > 0 {
			others--
		}
		if when == "before" {
			if others > 0 {
				victim++
			}
			running := reached > 0 && reached < len(rest.Tokens)+rest.MaxTokens-1
			if running != (rows > 0) && reached > 0 || rows > 0 && from != reached {
				t.Errorf("the neighbour has %d rows at %d, after %d positions", rows, from, reached)
			}
			reached += rows
		}
		if strike != nil && others > 0 && victim == at && when == moment {
			strike()
			strike = nil
		}
	}
	m, g := openGolden(t, "glm47flash", 1, &glm.Watch{
		Begin:  func(s *backend.Step, _ backend.Pages) { see("before", s) },
		During: func(s *backend.Step) { see("during", s) },
		End:    func(s *backend.Step, _ *backend.Result) { see("after", s) },
	})
	rest = endless(g.VocabSize, 5, 30, 1)
	long, brief, again := endless(g.VocabSize, 10*chunk, 2, 2), endless(g.VocabSize, chunk+6, decoded+2, 3), endless(g.VocabSize, 40, 2, 4)
	want := alone(t, m, glm.KVF32, []ask{{"neighbour", "", rest}, {"long", "", long}, {"brief", "", brief}, {"again", "", again}})

	p := newPool(t, m, glm.PoolConfig{Tokens: 4096})
	sessions := uint64(0) // opened so far
	open := func() *glm.Session {
		s, err := p.NewSession(glm.SessionConfig{})
		if err != nil {
			t.Fatal(err)
		}
		sessions++
		return s
	}
	// attempt strikes the victim in a step of its own, or breaks at a token.
	attempt := func(name string, r glm.Request, whole heard, step int, when string, token int) {
		t.Helper()
		prompt := len(r.Tokens)
		n, v := open(), open()
		mu.Lock()
		neighbour, reached, victim, at, moment = sessions-1, 0, 0, step, when
		joined = sync.OnceFunc(func() {
			eventually(t, name+": a victim", func() bool { return p.Scheduled() == 2 })
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		if token == 0 {
			strike = func() {
				cancel()
				soon(t, name+": the end of the stream", ended) // before the step is through
			}
		}
		mu.Unlock()

		running, over := make(chan struct{}), make(chan heard, 1)
		go func() {
			over <- listen(n.Generate(t.Context(), rest), len(rest.Tokens), func(tokens int) bool {
				if tokens == 1 {
					close(running)
				}
				return true
			})
		}()
		soon(t, name+": the neighbour's first token", running)
		h := listen(v.Generate(ctx, r), prompt, func(tokens int) bool { return token == 0 || tokens < token })
		close(ended)
		used := v.Usage()
		next := listen(v.Generate(t.Context(), again), len(again.Tokens), nil) // at once
		other := <-over

		switch {
		case h.flaw != nil:
			t.Errorf("%s: %v", name, h.flaw)
		case token > 0 && (!h.left || len(h.tokens) != token):
			t.Errorf("%s: %d tokens, then %s, %v", name, len(h.tokens), h.finish.Reason, h.err)
		case token == 0 && (h.finish.Reason != glm.FinishCancelled || !errors.Is(h.err, glm.ErrCanceled) || !errors.Is(h.err, context.Canceled)):
			t.Errorf("%s: %s, %v", name, h.finish.Reason, h.err)
		case token == 0 && used != h.finish.Usage, used.Prompt != prompt, used.Output < len(h.tokens), used.Cached != 0:
			t.Errorf("%s: usage %+v, told %+v after %d tokens", name, used, h.finish.Usage, len(h.tokens))
		case len(h.tokens) > len(whole.tokens) || !slices.Equal(h.tokens, whole.tokens[:len(h.tokens)]):
			t.Errorf("%s: %s", name, differ(&h, &whole))
		}
		same(t, name, []ask{{name: "neighbour"}, {name: "again"}}, []heard{other, next}, []heard{want[0], want[3]})
		if token == 0 {
			// Tokens come after the last step of the prompt, one a step; that of
			// the step that is struck is not told.
			if told := max(0, step-(prompt+chunk-1)/chunk); len(h.tokens) != told {
				t.Errorf("%s: %d tokens, want %d", name, len(h.tokens), told)
			}
			mu.Lock()
			if strike != nil {
				t.Errorf("%s: was not reached", name)
			}
			mu.Unlock()
		}
		if err := errors.Join(n.Close(), v.Close(), p.Check()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	points := 0
	stride := 1
	if testing.Short() {
		stride = 4
	}
	for step := 1; step <= 10+1+decoded; step += stride {
		for _, when := range []string{"before", "during", "after"} {
			if step <= 10 {
				attempt(fmt.Sprintf("%s step %d of a long prompt", when, step), long, want[1], step, when, 0)
			} else {
				attempt(fmt.Sprintf("%s token %d", when, step-10), brief, want[2], step-10+1, when, 0)
			}
			points++
		}
	}
	for token := 1; token <= decoded; token += stride {
		attempt(fmt.Sprintf("break at token %d", token), brief, want[2], 0, "", token)
		points++
	}
	if points < 50 && !testing.Short() {
		t.Errorf("only %d points", points)
	}
	eventually(t, "an empty pool", func() bool { s := p.Stats(); return s.Free == s.Pages })
	if s := p.Stats(); s.Integrity != 0 || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("afterwards: %+v", s)
	}
}

// When everybody in a step has left, the step aborts; while anybody is there, it
// does not.
func TestCancelAbortsStep(t *testing.T) {
	var mu sync.Mutex
	var strike func(*backend.Step)
	aborted := 0
	m, g := openGolden(t, "glm47flash", 2, &glm.Watch{
		Begin: func(s *backend.Step, _ backend.Pages) {
			mu.Lock()
			f := strike
			mu.Unlock()
			if f != nil {
				f(s)
			}
		},
		End: func(_ *backend.Step, r *backend.Result) {
			if r.Aborted {
				aborted++
			}
		},
	})
	p := newPool(t, m, glm.PoolConfig{Tokens: 4096})
	r := endless(g.VocabSize, 300, 50, 1)
	for _, tokens := range []int{0, 3} { // in the prompt, and while decoding
		var cancels [2]context.CancelFunc
		var ends [2]chan struct{}
		var said [2]chan int
		var told [2]heard
		for i := range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels[i], ends[i], said[i] = cancel, make(chan struct{}), make(chan int, 100)
			go func() {
				defer close(ends[i])
				told[i] = listen(p.Generate(ctx, "", r), len(r.Tokens), func(n int) bool { said[i] <- n; return true })
			}()
		}
		struck := make(chan struct{})
		var once sync.Once
		mu.Lock()
		strike = func(s *backend.Step) {
			if s.Seqs() != 2 || tokens > 0 && s.Rows() > 2 {
				return // both decode, or both are at their prompts
			}
			if tokens > 0 && int(s.Pos[0]) < len(r.Tokens)+tokens {
				return
			}
			once.Do(func() {
				defer close(struck)
				cancels[0]()
				soon(t, "the end of one", ends[0])
				if s.Abort.Load() {
					t.Errorf("after %d tokens: the step aborts while one is in it", tokens)
				}
				cancels[1]()
				soon(t, "the end of both", ends[1])
				if !s.Abort.Load() {
					t.Errorf("after %d tokens: nobody is in the step and it goes on", tokens)
				}
			})
		}
		mu.Unlock()
		soon(t, "a step of two", struck)
		mu.Lock()
		strike = nil
		mu.Unlock()
		for _, h := range told {
			if h.flaw != nil || h.finish.Reason != glm.FinishCancelled {
				t.Errorf("after %d tokens: %s, %v, %v", tokens, h.finish.Reason, h.err, h.flaw)
			}
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if aborted != 2 {
		t.Errorf("%d steps aborted, want 2", aborted)
	}
}

// A context that ends takes the generation out of the batch even while the
// consumer is busy with an event.
func TestCancelBehindSlowConsumer(t *testing.T) {
	m, g := openGolden(t, "glm47flash", 1, nil)
	p := newPool(t, m, glm.PoolConfig{Tokens: 8192})
	r := endless(g.VocabSize, 10, 8000, 1)
	ctx, cancel := context.WithCancel(t.Context())
	h := listen(p.Generate(ctx, "", r), len(r.Tokens), func(tokens int) bool {
		if tokens == 1 {
			cancel()
			eventually(t, "an end without the consumer", func() bool { return p.Stats().Running == 0 })
		}
		return true
	})
	if h.flaw != nil || h.finish.Reason != glm.FinishCancelled || len(h.tokens) >= r.MaxTokens {
		t.Errorf("%d tokens, %s, %v, %v", len(h.tokens), h.finish.Reason, h.err, h.flaw)
	}
}

// A token that arrives after its generation was left is of no effect: least of
// all does it draw from the session's random numbers, from which the next
// generation draws.
func TestCancelledTokenDrawsNothing(t *testing.T) {
	m, g := openGolden(t, "glm47flash", 1, nil)
	s, err := newPool(t, m, glm.PoolConfig{Tokens: 1024}).NewSession(glm.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	draws := s.Draws()
	r := endless(g.VocabSize, 10, 100, 1)
	r.Sampling.Temperature = 1
	for range 2 {
		var late func(int32)
		for range s.Generate(t.Context(), r) {
			late = s.Late()
			break
		}
		before, used := *draws, s.Usage()
		if before == 0 {
			t.Error("nothing was drawn")
		}
		late(1)
		if *draws != before || s.Usage() != used {
			t.Errorf("%d numbers drawn, before it were %d; usage %+v, before %+v", *draws, before, s.Usage(), used)
		}
	}
}

// BenchmarkCancel prints how long a stream of the embedded model takes to end once
// its context has: in the middle of a long prompt, and while decoding beside others.
func BenchmarkCancel(b *testing.B) {
	m := glmtest.Open(b)
	stops := []string{"<|endoftext|>", "<|user|>", "<|observation|>"}
	first, ok := m.Tokenizer().ID(stops[0]) // of the control tokens
	if !ok {
		b.Fatal("no control tokens")
	}
	endless := func(prompt, n int, seed uint64) glm.Request {
		r := endless(int(first), prompt, n, seed)
		for _, name := range stops {
			id, ok := m.Tokenizer().ID(name)
			if !ok {
				b.Fatal(name)
			}
			r.Sampling.LogitBias[id] = -1e4
		}
		return r
	}
	for _, where := range []string{"prefill", "decode"} {
		b.Run(where, func(b *testing.B) {
			p := newPool(b, m, glm.PoolConfig{Tokens: 16384})
			defer p.Close()
			crowd, quit := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			for i := range 8 {
				r := endless(20, 1500, uint64(i))
				wg.Go(func() {
					for crowd.Err() == nil {
						listen(p.Generate(crowd, "", r), len(r.Tokens), nil)
					}
				})
			}
			defer wg.Wait()
			defer quit()
			r := endless(2000, 500, 99)
			if where == "decode" {
				r.Tokens = r.Tokens[:10]
			}
			var all []time.Duration
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				var struck time.Time
				strike := func() { struck = time.Now(); cancel() }
				if where == "prefill" {
					time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, strike)
				}
				h := listen(p.Generate(ctx, "", r), len(r.Tokens), func(n int) bool {
					if where == "decode" && n == 5 {
						strike()
					}
					return true
				})
				if h.finish.Reason == glm.FinishCancelled {
					all = append(all, time.Since(struck))
				}
				cancel()
			}
			slices.Sort(all)
			if len(all) == 0 {
				b.Fatal("nothing was cancelled")
			}
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "ms-worst")
		})
	}
}
