package glm_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
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
