package glm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// openGolden opens a golden's checkpoint and closes it after the test. A watch,
// if there is one, sees its steps.
func openGolden(t testing.TB, name string, threads int, w *glm.Watch) (*glm.Model, *golden.Golden) {
	t.Helper()
	g, err := golden.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := glm.Open(t.Context(), g.Dir, glm.Config{LatentEps: g.LatentEps, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	if w == nil {
		w = &glm.Watch{}
	}
	m.Watch(w)
	return m, g
}

func newPool(t testing.TB, m *glm.Model, c glm.PoolConfig) *glm.KVPool {
	t.Helper()
	c.AllowSmallerPool = true
	p, err := m.NewKVPool(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawn is a Token to the bit.
type drawn struct {
	id      int32
	logProb uint32
	top     [5]struct {
		id      int32
		logProb uint32
	}
}

func draw(tok glm.Token) drawn {
	d := drawn{id: tok.ID, logProb: math.Float32bits(tok.LogProb)}
	for i, p := range tok.Top {
		d.top[i].id, d.top[i].logProb = p.ID, math.Float32bits(p.LogProb)
	}
	return d
}

// heard is what came out of a stream.
type heard struct {
	tokens []drawn
	finish glm.Finish // Reason "": there was none
	err    error
	left   bool  // the listener broke off
	flaw   error // how the stream departs from the contract
}

// ended reports whether the generation came to an end of its own.
func (h *heard) ended() bool {
	return h.finish.Reason == glm.FinishStop || h.finish.Reason == glm.FinishLength
}

// listen hears a stream of Tokens out, or until stay, called with the number of
// tokens so far, says no.
func listen(stream iter.Seq2[glm.Event, error], prompt int, stay func(tokens int) bool) (h heard) {
	elements := 0
	flaw := func(format string, args ...any) {
		if h.flaw == nil {
			h.flaw = fmt.Errorf("element %d: "+format, append([]any{elements}, args...)...)
		}
	}
	for ev, err := range stream {
		elements++
		finished := h.finish.Reason != ""
		switch {
		case h.err != nil:
			flaw("%T, %v after the error %v", ev, err, h.err)
		case err != nil:
			if h.err = err; ev != nil {
				flaw("%T beside the error %v", ev, err)
			}
			if !finished && elements > 1 {
				flaw("the error %v without a Finish before it", err)
			}
			if finished && h.finish.Reason != glm.FinishCancelled && h.finish.Reason != glm.FinishFailed {
				flaw("the error %v after %s", err, h.finish.Reason)
			}
			continue
		case finished:
			flaw("%T after Finish", ev)
		}
		switch ev := ev.(type) {
		case glm.Token:
			h.tokens = append(h.tokens, draw(ev))
		case glm.Finish:
			h.finish = ev
			if u := ev.Usage; u.Prompt != prompt || u.Output != len(h.tokens) || u.Cached < 0 || u.Cached >= prompt || u.Cached%32 != 0 {
				flaw("usage %+v after a prompt of %d and %d tokens", u, prompt, len(h.tokens))
			}
		default:
			flaw("%T in a stream of ids", ev)
		}
		if stay != nil && !stay(len(h.tokens)) {
			h.left = true
			break
		}
	}
	switch reason := h.finish.Reason; {
	case h.left:
	case reason == "" && h.err == nil:
		flaw("neither Finish nor error")
	case (reason == glm.FinishCancelled || reason == glm.FinishFailed) && h.err == nil:
		flaw("%s without an error", reason)
	case reason == glm.FinishCancelled && !errors.Is(h.err, glm.ErrCanceled):
		flaw("cancelled with %v", h.err)
	}
	return h
}

// auditor hears a pool's audit records, one at a time.
type auditor func(event string, attrs map[string]slog.Value)

func (a auditor) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]slog.Value{}
	r.Attrs(func(at slog.Attr) bool {
		attrs[at.Key] = at.Value
		return true
	})
	a(r.Message, attrs)
	return nil
}

func (a auditor) Enabled(context.Context, slog.Level) bool { return true }
func (a auditor) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a auditor) WithGroup(string) slog.Handler            { return a }

// rounds is how often a random test is repeated: COFFERDAM_ROUNDS, or once.
func rounds(t testing.TB) int {
	s := os.Getenv("COFFERDAM_ROUNDS")
	if s == "" {
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("COFFERDAM_ROUNDS is %q, want a number", s)
	}
	return n
}

// gate stands before every step of a model: it records who had rows in it, and
// while it is shut the next step waits.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{}    // closed to open; nil: open
	steps []map[uint64]int // rows by session
}

func (g *gate) watch() *glm.Watch {
	return &glm.Watch{Begin: func(s *backend.Step, _ backend.Pages) {
		rows := map[uint64]int{}
		for q, session := range s.Session {
			rows[session] = int(s.QStart[q+1] - s.QStart[q])
		}
		g.mu.Lock()
		g.steps = append(g.steps, rows)
		shut := g.shut
		g.mu.Unlock()
		if shut != nil {
			<-shut
		}
	}}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

// open lets steps pass and forgets those that have been.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.steps = nil
	close(g.shut)
	g.shut = nil
}

func (g *gate) begun() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.steps)
}

// Closing a session, a pool or a model ends what runs in a step and what waits
// for room at once, each with its own error; pool and model wait for the step.
func TestCloseInStepAndQueue(t *testing.T) {
	for _, c := range []struct {
		name           string
		close          func(m *glm.Model, p *glm.KVPool, running, waiting *glm.Session) error
		running, waits error // nil: goes on
		afterStep      bool  // close returns after the step
	}{
		{"running session", func(_ *glm.Model, _ *glm.KVPool, r, _ *glm.Session) error { return r.Close() }, glm.ErrSessionClosed, nil, false},
		{"waiting session", func(_ *glm.Model, _ *glm.KVPool, _, w *glm.Session) error { return w.Close() }, nil, glm.ErrSessionClosed, false},
		{"pool", func(_ *glm.Model, p *glm.KVPool, _, _ *glm.Session) error { return p.Close() }, glm.ErrPoolClosed, glm.ErrPoolClosed, true},
		{"model", func(m *glm.Model, _ *glm.KVPool, _, _ *glm.Session) error { return m.Close() }, glm.ErrModelClosed, glm.ErrModelClosed, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &gate{}
			m, gold := openGolden(t, "glm47flash", 1, g.watch())
			first, second := endless(gold.VocabSize, 70, 20, 1), endless(gold.VocabSize, 40, 5, 2)
			want := alone(t, m, glm.KVF32, []ask{{"running", "", first}, {"waiting", "", second}})
			p := newPool(t, m, glm.PoolConfig{Tokens: 96})
			sessions := [2]*glm.Session{}
			over := [2]chan heard{make(chan heard, 1), make(chan heard, 1)}
			steps := g.begun()
			g.close()
			for i, r := range []glm.Request{first, second} {
				s, err := p.NewSession(glm.SessionConfig{})
				if err != nil {
					t.Fatal(err)
				}
				sessions[i] = s
				go func() { over[i] <- listen(s.Generate(t.Context(), r), len(r.Tokens), nil) }()
				eventually(t, "its place", func() bool { return g.begun() > steps && p.Stats().Waiting == i })
			}
			closed := make(chan error, 1)
			go func() { closed <- c.close(m, p, sessions[0], sessions[1]) }()
			if !c.afterStep {
				if err := <-closed; err != nil {
					t.Error(err)
				}
			}
			for i, err := range []error{c.running, c.waits} {
				if err == nil {
					continue
				}
				reason := glm.FinishFailed
				if i == 1 {
					reason = "" // refused: only the error
				}
				// The step still stands at the gate.
				if h := <-over[i]; h.flaw != nil || !errors.Is(h.err, err) || h.finish.Reason != reason || len(h.tokens) > 0 {
					t.Errorf("stream %d: %q, %v, %v", i, h.finish.Reason, h.err, h.flaw)
				}
				if h := listen(sessions[i].Generate(t.Context(), second), 40, nil); !errors.Is(h.err, err) || h.flaw != nil || h.finish.Reason != "" {
					t.Errorf("stream %d, after the close: %q, %v, %v", i, h.finish.Reason, h.err, h.flaw)
				}
			}
			if c.afterStep {
				select {
				case <-closed:
					t.Error("closed while a step was running")
				case <-time.After(20 * time.Millisecond):
				}
			}
			g.open()
			if c.afterStep {
				if err := <-closed; err != nil {
					t.Error(err)
				}
			}
			for i, err := range []error{c.running, c.waits} {
				if err == nil {
					same(t, c.name, []ask{{name: fmt.Sprint("stream ", i)}}, []heard{<-over[i]}, want[i:i+1])
				}
			}
			if st := p.Stats(); st.Integrity != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A consumer that takes its time holds up nobody, not even its own generation.
func TestSlowConsumer(t *testing.T) {
	m, g := openGolden(t, "glm47flash", 1, nil)
	slow, quick := endless(g.VocabSize, 40, 30, 1), endless(g.VocabSize, 50, 60, 2)
	want := alone(t, m, glm.KVF32, []ask{{"slow", "", slow}, {"quick", "", quick}})
	p := newPool(t, m, glm.PoolConfig{Tokens: 4096})
	var other heard
	h := listen(p.Generate(t.Context(), "", slow), len(slow.Tokens), func(tokens int) bool {
		if tokens == 1 {
			other = listen(p.Generate(t.Context(), "", quick), len(quick.Tokens), nil)
			eventually(t, "an end of the slow one's own computation", func() bool { return p.Stats().Running == 0 })
		}
		return true
	})
	same(t, "with a slow consumer", []ask{{name: "slow"}, {name: "quick"}}, []heard{h, other}, want)
}

// Nothing runs until a stream is ranged over; a session is busy from then to the
// end of the loop, however that is left, and free afterwards.
func TestBusyFromRangeToReturn(t *testing.T) {
	g := &gate{}
	m, gold := openGolden(t, "glm47flash", 1, g.watch())
	r := endless(gold.VocabSize, 40, 20, 1)
	want := alone(t, m, glm.KVF32, []ask{{"alone", "", r}})
	p := newPool(t, m, glm.PoolConfig{Tokens: 96})
	s, err := p.NewSession(glm.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	before := g.begun()
	stream := s.Generate(t.Context(), r)
	if n := p.Stats().Running; n != 0 || g.begun() != before {
		t.Errorf("%d run before the range", n)
	}
	busy := func(when string) {
		t.Helper()
		for _, again := range []iter.Seq2[glm.Event, error]{stream, s.Generate(t.Context(), r)} {
			if h := listen(again, len(r.Tokens), nil); !errors.Is(h.err, glm.ErrSessionBusy) || h.flaw != nil || h.finish.Reason != "" {
				t.Errorf("%s: %q, %v, %v", when, h.finish.Reason, h.err, h.flaw)
			}
		}
	}
	free := func(when string) {
		t.Helper()
		same(t, when, []ask{{name: "the next"}}, []heard{listen(stream, len(r.Tokens), nil)}, want)
	}

	// While it waits for room.
	holder, err := p.NewSession(glm.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	g.close()
	first, second := make(chan heard, 1), make(chan heard, 1)
	go func() { first <- listen(holder.Generate(t.Context(), r), len(r.Tokens), nil) }()
	eventually(t, "a step", func() bool { return g.begun() > before })
	go func() { second <- listen(stream, len(r.Tokens), nil) }()
	eventually(t, "a queue", func() bool { return p.Stats().Waiting == 1 })
	busy("in the queue")
	g.open()
	same(t, "after the queue", []ask{{name: "the first"}, {name: "the second"}}, []heard{<-first, <-second}, []heard{want[0], want[0]})
	free("after a whole loop")

	// In the loop's body, also once everything has been computed.
	h := listen(stream, len(r.Tokens), func(tokens int) bool {
		if tokens == 1 {
			busy("at the first token")
		}
		if tokens == len(want[0].tokens) {
			eventually(t, "the end of the computation", func() bool { return p.Stats().Running == 0 })
			busy("at the last token")
		}
		return true
	})
	same(t, "watched", []ask{{name: "the first"}}, []heard{h}, want)
	free("after a watched loop")

	// Left by break, by a panic, and by the caller of an iterator that was pulled.
	for range stream {
		break
	}
	if u := s.Usage(); u.Prompt != len(r.Tokens) {
		t.Errorf("usage after break: %+v", u)
	}
	free("after break")
	func() {
		defer func() {
			if recover() != "the consumer's" {
				t.Error("the panic is lost")
			}
		}()
		for range stream {
			panic("the consumer's")
		}
	}()
	free("after a panic")
	next, stop := iter.Pull2(stream)
	if ev, err, ok := next(); ev == nil || err != nil || !ok {
		t.Errorf("pulled %v, %v, %v", ev, err, ok)
	}
	busy("pulled")
	stop()
	free("after stop")
}

// Usage is what was really computed and really reused: the audit record counts
// rows and pages, and no row is fed for the last token.
func TestUsageAddsUp(t *testing.T) {
	m, g := openGolden(t, "glm47flash", 1, nil)
	var computed, reused int64
	p := newPool(t, m, glm.PoolConfig{Tokens: 4096, Audit: auditor(func(event string, attrs map[string]slog.Value) {
		if event == "ended" {
			computed, reused = attrs["computed"].Int64(), attrs["reused"].Int64()
		}
	})})
	r := endless(g.VocabSize, 100, 40, 1)
	shared := 0
	for _, n := range []int{100, 100, 97, 96, 33, 32, 65} { // prompts that begin alike
		r.Tokens, r.MaxTokens = r.Tokens[:n], 1+n%7
		h := listen(p.Generate(t.Context(), "a", r), n, nil)
		u := h.finish.Usage
		if h.flaw != nil || h.finish.Reason != glm.FinishLength || u.Output != r.MaxTokens {
			t.Fatalf("%s, %v, %v, %+v", h.finish.Reason, h.err, h.flaw, u)
		}
		if int(reused) != u.Cached || int(computed) != u.Prompt-u.Cached+u.Output-1 {
			t.Errorf("prompt of %d: %+v, and the audit counts %d computed, %d reused", n, u, computed, reused)
		}
		if want := min(shared, (n-1)/32*32); u.Cached != want {
			t.Errorf("prompt of %d: %d cached, want %d", n, u.Cached, want)
		}
		shared = max(shared, n/32*32)
		r.Tokens = r.Tokens[:100]
	}
}
