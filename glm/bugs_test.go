package glm_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// These tests replay leaks of other engines through the public API and a model,
// by their number in BUGS.md at the root of the module.

// randomIDs draws a prompt.
func randomIDs(rng *rand.Rand, vocab, n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = rng.Int32N(int32(vocab))
	}
	return p
}

// Bug 32: a client sends what decides which memory is reused. Nothing in a
// request but its tokens, and nothing in a session but its tenant, does.
func TestRequestsCarryNoKeys(t *testing.T) {
	m, g := openGolden(t, "air", 2, nil)
	prompt := randomIDs(rand.New(rand.NewPCG(1, 32)), g.VocabSize-4, 70)
	base := func() glm.Request { return glm.Request{Tokens: slices.Clone(prompt), MaxTokens: 2} }
	// Every field of a request that may stand beside Tokens, at another value.
	// Stop, Messages, Tools and Effort may not: without a tokenizer they are
	// refused, and a rendered conversation is tokens like any other.
	others := map[string]func(*glm.Request){
		"MaxTokens":  func(r *glm.Request) { r.MaxTokens = 3 },
		"Sampling":   func(r *glm.Request) { r.Sampling = &glm.Sampling{Temperature: 1, Seed: 7, TopLogProbs: 3} },
		"ToolChoice": func(r *glm.Request) { r.ToolChoice.Mode = glm.ToolNone },
		"Tokens":     func(r *glm.Request) { r.Tokens[40]++ },
		"Stop":       nil, "Messages": nil, "Tools": nil, "Effort": nil,
	}
	for f := range reflect.TypeFor[glm.Request]().Fields() {
		if _, ok := others[f.Name]; !ok {
			t.Errorf("Request.%s is new: may it name memory?", f.Name)
		}
	}
	for f := range reflect.TypeFor[glm.SessionConfig]().Fields() {
		if f.Name != "Tenant" && f.Name != "Label" {
			t.Errorf("SessionConfig.%s is new: may it name memory?", f.Name)
		}
	}
	p := newPool(t, m, glm.PoolConfig{Tokens: 1024})
	cached := func(tenant, label string, r glm.Request) int {
		s, err := p.NewSession(glm.SessionConfig{Tenant: tenant, Label: label})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		reply, err := glm.Collect(s.Generate(t.Context(), r))
		if err != nil {
			t.Fatal(err)
		}
		return reply.Usage.Cached
	}
	cached("a", "one", base())
	if n := cached("a", "two", base()); n != 64 {
		t.Errorf("the same request under another label: %d cached", n)
	}
	if n := cached("b", "one", base()); n != 0 {
		t.Errorf("another tenant under the same label: %d cached", n)
	}
	for name, change := range others {
		if change == nil {
			continue
		}
		r, want := base(), 64
		if change(&r); name == "Tokens" {
			want = 32
		}
		if n := cached("a", "one", r); n != want {
			t.Errorf("another %s: %d cached, want %d", name, n, want)
		}
	}
}

// Bug 34: rows that were never written are cached, and the first answer does not
// show it. After a prompt the whole of its pages is looked at: every row is
// written, none beyond the last, and all bytes are those of another way to
// compute the same: chunked by neighbours, and in other pages.
func TestPagesHoldWhatWasComputed(t *testing.T) {
	const page, length = 32, 75
	for _, name := range lawGoldens(t) {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var tables [][]int32 // of the sequence of length rows, once per run
			m, g := openGolden(t, name, 2, &glm.Watch{Begin: func(s *backend.Step, _ backend.Pages) {
				mu.Lock()
				defer mu.Unlock()
				for q := range s.Session {
					if s.KVLen[q] == length {
						tables = append(tables, slices.Clone(s.Pages[q*s.Stride:q*s.Stride+(length+page-1)/page]))
					}
				}
			}})
			rng := rand.New(rand.NewPCG(1, 34))
			prompt := glm.Request{Tokens: randomIDs(rng, g.VocabSize-4, length), MaxTokens: 1}
			var runs [2][][]byte
			for i := range runs {
				tables = nil
				p := newPool(t, m, glm.PoolConfig{Tokens: 640})
				if i == 1 { // others have been here, and one is still at work
					if h := listen(p.Generate(t.Context(), "before", endless(g.VocabSize, 200, 3, 8)), 200, nil); h.err != nil {
						t.Fatal(h.err)
					}
					next := endless(g.VocabSize, 30, 40, 9)
					h := listen(p.Generate(t.Context(), "beside", next), 30, func(tokens int) bool {
						if tokens == 1 {
							runs[i] = computed(t, p, prompt, &mu, &tables)
						}
						return true
					})
					if h.err != nil {
						t.Fatal(h.err)
					}
				} else {
					runs[i] = computed(t, p, prompt, &mu, &tables)
				}
				if err := errors.Join(p.Check(), p.Close()); err != nil {
					t.Error(err)
				}
			}
			for i := range runs[0] {
				if !bytes.Equal(runs[0][i], runs[1][i]) {
					t.Errorf("page %d of the prompt has other bytes", i)
				}
			}
		})
	}
}

// computed runs a prompt and returns its full pages, which rest in the index.
// The rows of poison in them are none.
func computed(t *testing.T, p *glm.KVPool, r glm.Request, mu *sync.Mutex, tables *[][]int32) (full [][]byte) {
	t.Helper()
	s, err := p.NewSession(glm.SessionConfig{Tenant: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if h := listen(s.Generate(t.Context(), r), len(r.Tokens), nil); h.err != nil || h.flaw != nil {
		t.Fatal(h.err, h.flaw)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(*tables) != 1 {
		t.Fatalf("%d steps ended the prompt", len(*tables))
	}
	memory := p.Pages()
	spec := memory.Spec()
	for _, page := range (*tables)[0][:len(r.Tokens)/spec.PageSize] {
		data := memory.Export(nil, int(page))
		full = append(full, data)
		for at := 0; at < len(data); at += spec.Format.Size() {
			if bytes.Count(data[at:at+spec.Format.Size()], []byte{0xff}) == spec.Format.Size() {
				t.Fatalf("page %d: byte %d was never written", page, at)
			}
		}
	}
	return full
}

// Bug 46: ids at the edge of the vocabulary reach into a neighbour's logits.
func TestEdgeIDsLeaveNeighboursAlone(t *testing.T) {
	m, g := openGolden(t, "hard", 2, nil)
	vocab := int32(g.VocabSize)
	neighbour := endless(g.VocabSize, 40, 24, 46)
	want := listen(newPool(t, m, glm.PoolConfig{Tokens: 256}).Generate(t.Context(), "", neighbour), 40, nil)
	p := newPool(t, m, glm.PoolConfig{Tokens: 1024})
	n := 0
	have := listen(p.Generate(t.Context(), "", neighbour), 40, func(int) bool {
		id := []int32{0, vocab - 1, vocab, vocab + 1, 2 * vocab, 1 << 30, -1, -vocab}[n%8]
		n++
		for field, r := range map[string]glm.Request{
			"Tokens":    {Tokens: []int32{1, id, 2}, MaxTokens: 1},
			"LogitBias": {Tokens: []int32{1}, MaxTokens: 1, Sampling: &glm.Sampling{LogitBias: map[int32]float32{id: 100}}},
			"Penalties": {Tokens: []int32{id}, MaxTokens: 2, Sampling: &glm.Sampling{Repetition: 2, Presence: 2, Frequency: 2}},
		} {
			_, err := glm.Collect(p.Generate(t.Context(), "", r))
			if inside := id >= 0 && id < vocab; inside != (err == nil) || !inside && !errors.Is(err, glm.ErrInvalidRequest) {
				t.Errorf("%s with id %d: %v", field, id, err)
			}
		}
		return true
	})
	if have.err != nil || !slices.Equal(have.tokens, want.tokens) || n < 24 {
		t.Errorf("after %d ids beside it: %v, %s", n, have.err, differ(&have, &want))
	}
}

// Bug 47: clients choose equal, empty and prefix names. Names are labels: each
// session is its own, and ending one ends no other.
func TestEqualNamesAreTwoSessions(t *testing.T) {
	gate := &gate{}
	m, g := openGolden(t, "air", 2, gate.watch())
	ids := map[uint64]int{}
	var mu sync.Mutex
	p := newPool(t, m, glm.PoolConfig{Tokens: 1024, Audit: auditor(func(event string, attrs map[string]slog.Value) {
		mu.Lock()
		defer mu.Unlock()
		if event == "admitted" {
			ids[attrs["request"].Uint64()]++
		}
	})})
	names := []string{"a", "a", "", "", "ab", "a\x00"}
	sessions := make([]*glm.Session, len(names))
	out := make([]heard, len(names))
	var wg sync.WaitGroup
	gate.close()
	for i, name := range names {
		s, err := p.NewSession(glm.SessionConfig{Tenant: name, Label: name})
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = s
		wg.Go(func() { out[i] = listen(s.Generate(t.Context(), endless(g.VocabSize, 10, 12, 47)), 10, nil) })
	}
	eventually(t, "all run", func() bool { return p.Stats().Running == len(names) })
	sessions[0].Close()
	sessions[2].Close()
	gate.open()
	wg.Wait()
	for i := range names {
		switch closed := i == 0 || i == 2; {
		case closed && !errors.Is(out[i].err, glm.ErrSessionClosed):
			t.Errorf("session %d: %v", i, out[i].err)
		case !closed && (out[i].err != nil || len(out[i].tokens) != 12):
			t.Errorf("session %d ended with another: %d tokens, %v", i, len(out[i].tokens), out[i].err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != len(names) {
		t.Errorf("%d requests have %d identities", len(names), len(ids))
	}
}

// Bug 50: the pool runs out in mid-answer. Strict admits nobody whose end it
// cannot hold: all answers come whole, one after the other, nothing is taken
// from anybody; what can never be held is refused before it begins.
func TestNobodyRunsOutInMidAnswer(t *testing.T) {
	m, g := openGolden(t, "air", 2, nil)
	events := map[string]int{}
	p := newPool(t, m, glm.PoolConfig{Tokens: 96, Audit: auditor(func(event string, _ map[string]slog.Value) { events[event]++ })})
	out := make([]heard, 4)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			out[i] = listen(p.Generate(t.Context(), fmt.Sprint(i), endless(g.VocabSize, 10+i, 80-i, uint64(i))), 10+i, nil)
		})
	}
	wg.Wait()
	for i, h := range out {
		if h.err != nil || h.flaw != nil || h.finish.Reason != glm.FinishLength || len(h.tokens) != 80-i {
			t.Errorf("answer %d: %s after %d tokens, %v, %v", i, h.finish.Reason, len(h.tokens), h.err, h.flaw)
		}
	}
	_, err := glm.Collect(p.Generate(t.Context(), "", endless(g.VocabSize, 10, 87, 5)))
	if e, ok := errors.AsType[*glm.ContextError](err); !ok || e.Max != 96 {
		t.Errorf("above what the pool holds: %v", err)
	}
	if err := errors.Join(p.Check(), p.Close()); err != nil {
		t.Error(err)
	}
	if events["requeued"] != 0 || events["refused"] != 1 {
		t.Errorf("audit %v", events)
	}
}
