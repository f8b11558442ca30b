package glm_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// ask is a request and who makes it.
type ask struct {
	name, tenant string
	r            glm.Request
}

// asks draws requests of every kind: prompts within a page, of some pages, of
// more rows than a step has; greedy and sampled; alike and of different tenants.
func asks(rng *rand.Rand, vocab int) []ask {
	ids := func(n int) []int32 {
		p := make([]int32, n)
		for i := range p {
			p[i] = rng.Int32N(int32(vocab))
		}
		return p
	}
	between := func(low, high int) int { return low + rng.IntN(high-low+1) }
	seeded := func() *glm.Sampling {
		return &glm.Sampling{Temperature: 0.5 + rng.Float32(), TopK: between(5, vocab), TopP: 0.8, Seed: rng.Uint64() | 1, TopLogProbs: 5}
	}
	greedy := func() *glm.Sampling { return &glm.Sampling{TopLogProbs: 5} }
	all := []ask{
		{"within a page", "a", glm.Request{Tokens: ids(between(1, 31)), Sampling: greedy()}},
		{"greedy", "a", glm.Request{Tokens: ids(between(65, 127)), Sampling: greedy()}},
		{"sampled", "b", glm.Request{Tokens: ids(between(64, 160)), Sampling: seeded()}},
		{"penalties", "c", glm.Request{Tokens: ids(between(33, 100)), Sampling: &glm.Sampling{
			Temperature: 1, MinP: 0.01, Seed: 7, Repetition: 1.2, Presence: 0.5, Frequency: 0.25,
			LogitBias: map[int32]float32{rng.Int32N(int32(vocab)): 2}, TopLogProbs: 5,
		}}},
		{"whole pages", "c", glm.Request{Tokens: ids(64), Sampling: greedy()}},
		{"two steps", "b", glm.Request{Tokens: ids(between(257, 330)), Sampling: greedy()}},
		{"nobody's", "", glm.Request{Tokens: ids(between(257, 300)), Sampling: seeded()}},
	}
	// Others of the same tenants: one continues a prompt in its own way, one
	// draws something else from the same prompt, and somebody unknown asks the
	// same thing.
	shared := all[1].r.Tokens[:64]
	all = append(all,
		ask{"shared prefix", "a", glm.Request{Tokens: slices.Concat(shared, ids(between(1, 70))), Sampling: greedy()}},
		ask{"same prompt", "b", glm.Request{Tokens: all[2].r.Tokens, Sampling: seeded()}},
		ask{"same prompt elsewhere", "", glm.Request{Tokens: all[5].r.Tokens, Sampling: greedy()}},
	)
	for i := range all {
		all[i].r.MaxTokens = between(4, 24)
	}
	return all
}

// alone runs every request by itself, in a pool that nobody has used.
func alone(t *testing.T, m *glm.Model, format glm.KVFormat, all []ask) []heard {
	t.Helper()
	out := make([]heard, len(all))
	for i, a := range all {
		p := newPool(t, m, glm.PoolConfig{Tokens: 2048, KV: format})
		out[i] = listen(p.Generate(t.Context(), a.tenant, a.r), len(a.r.Tokens), nil)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if out[i].flaw != nil || !out[i].ended() {
			t.Fatalf("%s, alone: %v, %v, %v", a.name, out[i].finish.Reason, out[i].err, out[i].flaw)
		}
	}
	return out
}

// together runs all requests at once in random order, each begun after the one
// before it has said a random number of tokens.
func together(t *testing.T, p *glm.KVPool, rng *rand.Rand, all []ask) []heard {
	t.Helper()
	out := make([]heard, len(all))
	var wg sync.WaitGroup
	begin := make(chan struct{})
	close(begin)
	for _, i := range rng.Perm(len(all)) {
		after, next, wait := rng.IntN(4), make(chan struct{}), begin
		begin = next
		wg.Go(func() {
			<-wait
			var once sync.Once
			tell := func(tokens int) bool {
				if tokens >= after {
					once.Do(func() { close(next) })
				}
				return true
			}
			tell(0)
			out[i] = listen(p.Generate(context.Background(), all[i].tenant, all[i].r), len(all[i].r.Tokens), tell)
			tell(after)
		})
	}
	wg.Wait()
	return out
}

// atOnce runs all requests at once: they are there, in random order, before the
// second step.
func atOnce(t *testing.T, p *glm.KVPool, g *gate, rng *rand.Rand, all []ask) []heard {
	t.Helper()
	out := make([]heard, len(all))
	var wg sync.WaitGroup
	g.close()
	for n, i := range rng.Perm(len(all)) {
		wg.Go(func() {
			out[i] = listen(p.Generate(context.Background(), all[i].tenant, all[i].r), len(all[i].r.Tokens), nil)
		})
		eventually(t, "a place", func() bool { s := p.Stats(); return s.Running+s.Waiting == n+1 })
	}
	g.open()
	wg.Wait()
	return out
}

// same demands that two runs of the requests agree bit for bit.
func same(t *testing.T, how string, all []ask, have, want []heard) {
	t.Helper()
	for i, a := range all {
		switch h, w := &have[i], &want[i]; {
		case h.flaw != nil:
			t.Errorf("%s, %s: %v", a.name, how, h.flaw)
		case h.err != nil:
			t.Errorf("%s, %s: %v", a.name, how, h.err)
		case h.finish.Reason != w.finish.Reason || !slices.Equal(h.tokens, w.tokens):
			t.Errorf("%s, %s: %s", a.name, how, differ(h, w))
		}
	}
}

// differ says where two runs part.
func differ(have, want *heard) string {
	for i := range min(len(have.tokens), len(want.tokens)) {
		if have.tokens[i] != want.tokens[i] {
			return fmt.Sprintf("token %d of %d is\n%x, alone it is\n%x", i, len(want.tokens), have.tokens[i], want.tokens[i])
		}
	}
	return fmt.Sprintf("%d tokens and %s, alone %d tokens and %s", len(have.tokens), have.finish.Reason, len(want.tokens), want.finish.Reason)
}

// lawGoldens are one of each kind of attention, or, with more rounds, all.
func lawGoldens(t *testing.T) []string {
	if testing.Short() {
		return []string{"hard"}
	}
	if rounds(t) > 1 {
		return []string{"air", "glm45", "glm45fp8", "glm47flash", "glm5", "glm52", "glm52fp8", "hard"}
	}
	return []string{"air", "glm47flash", "hard"}
}

// eachLaw runs f for goldens, KV formats and seeds.
func eachLaw(t *testing.T, f func(t *testing.T, name string, format glm.KVFormat, rng func() *rand.Rand)) {
	formats := []glm.KVFormat{glm.KVF32, glm.KVBF16}
	if testing.Short() {
		formats = formats[:1]
	}
	for _, name := range lawGoldens(t) {
		for _, format := range formats {
			for round := range rounds(t) {
				t.Run(fmt.Sprintf("%s/%v/seed %d", name, format, round), func(t *testing.T) {
					f(t, name, format, func() *rand.Rand { return rand.New(rand.NewPCG(uint64(round), uint64(format))) })
				})
			}
		}
	}
}

// A request alone in a cold pool, on one thread, answers the same bits as among
// others, in any order, over prefixes that are there already, on more threads.
func TestLawsBatch(t *testing.T) {
	eachLaw(t, func(t *testing.T, name string, format glm.KVFormat, seed func() *rand.Rand) {
		one, g := openGolden(t, name, 1, nil)
		rng := seed()
		all := asks(rng, g.VocabSize)
		want := alone(t, one, format, all)
		counts := []int{1, 2, 3, 4}
		switch {
		case testing.Short():
			counts = []int{2}
		case rounds(t) == 1 && format == glm.KVF32:
			counts = []int{1, 3}
		case rounds(t) == 1:
			counts = []int{2, 4}
		}
		for _, threads := range counts {
			gate := &gate{}
			m, _ := openGolden(t, name, threads, gate.watch())
			p := newPool(t, m, glm.PoolConfig{Tokens: 4096, KV: format})
			same(t, fmt.Sprintf("together, %d threads", threads), all, together(t, p, rng, all), want)
			warm := atOnce(t, p, gate, rng, all)
			same(t, fmt.Sprintf("warm, %d threads", threads), all, warm, want)
			for i, a := range all {
				// Every page that is full before the last token of the prompt, but
				// nothing that another one without a tenant has computed.
				full := (len(a.r.Tokens) - 1) / 32 * 32
				if a.tenant == "" {
					full = 0
				}
				if warm[i].finish.Usage.Cached != full {
					t.Errorf("%s, warm: %d of %d tokens cached, want %d", a.name, warm[i].finish.Usage.Cached, len(a.r.Tokens), full)
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			widest := 0
			for _, rows := range gate.steps {
				widest = max(widest, len(rows))
			}
			if widest < 3 {
				t.Errorf("no step had more than %d sequences", widest)
			}
		}
	})
}

// Reading a reply back as part of a longer prompt goes on as the reply did: rows
// computed one by one, and in one piece.
func TestLawsTokenByToken(t *testing.T) {
	eachLaw(t, func(t *testing.T, name string, format glm.KVFormat, seed func() *rand.Rand) {
		m, g := openGolden(t, name, 2, nil)
		rng := seed()
		for _, length := range []int{1, 30, 100} {
			a := ask{name: fmt.Sprintf("%d tokens", length), r: glm.Request{MaxTokens: 48, Sampling: &glm.Sampling{TopLogProbs: 5}}}
			for range length {
				a.r.Tokens = append(a.r.Tokens, rng.Int32N(int32(g.VocabSize)))
			}
			want := alone(t, m, format, []ask{a})[0]
			for _, cut := range []int{1, len(want.tokens) / 2, len(want.tokens) - 1} {
				if cut < 1 || cut >= len(want.tokens) {
					continue
				}
				b := a
				b.r.Tokens, b.r.MaxTokens = slices.Clone(a.r.Tokens), a.r.MaxTokens-cut
				for _, tok := range want.tokens[:cut] {
					b.r.Tokens = append(b.r.Tokens, tok.id)
				}
				rest := want
				rest.tokens = want.tokens[cut:]
				same(t, fmt.Sprintf("after %d of its own", cut), []ask{b}, alone(t, m, format, []ask{b}), []heard{rest})
			}
		}
	})
}

// A prompt that is fed in shares between the tokens of others answers the same
// bits, and so do the others.
func TestLawsChunked(t *testing.T) {
	eachLaw(t, func(t *testing.T, name string, format glm.KVFormat, seed func() *rand.Rand) {
		var whole, shares int // largest chunk; steps in which a chunk stood beside a decoded row
		m, g := openGolden(t, name, 2, &glm.Watch{Begin: func(s *backend.Step, _ backend.Pages) {
			decode, chunk := false, 0
			for q := range s.Seqs() {
				if n := int(s.QStart[q+1] - s.QStart[q]); n == 1 {
					decode = true
				} else {
					chunk = max(chunk, n)
				}
			}
			whole = max(whole, chunk)
			if decode && chunk > 1 {
				shares++
				if chunk > 64 {
					t.Errorf("a chunk of %d rows beside a decoded one", chunk)
				}
			}
		}})
		rng := seed()
		all := asks(rng, g.VocabSize)
		want := alone(t, m, format, all)
		if whole != 256 {
			t.Errorf("alone, the largest chunk had %d rows", whole)
		}
		// Somebody decodes all the while.
		p := newPool(t, m, glm.PoolConfig{Tokens: 8192, KV: format})
		never := map[int32]float32{}
		for id := range int32(4) {
			never[int32(g.VocabSize)-1-id] = -1e4 // the ids that end a turn
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		decoding, over := make(chan struct{}), make(chan heard)
		go func() {
			over <- listen(p.Generate(ctx, "decoder", glm.Request{Tokens: []int32{1, 2, 3}, MaxTokens: 4000, Sampling: &glm.Sampling{LogitBias: never}}), 3, func(n int) bool {
				if n == 1 {
					close(decoding)
				}
				return true
			})
		}()
		<-decoding
		shares = 0
		same(t, "chunked", all, together(t, p, rng, all), want)
		if shares < 10 {
			t.Errorf("only %d steps had a chunk beside a decoded row", shares)
		}
		cancel()
		if h := <-over; h.finish.Reason != glm.FinishCancelled || h.flaw != nil {
			t.Errorf("the decoder: %s, %v, %v", h.finish.Reason, h.err, h.flaw)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Two pools of one model, whose steps take turns on the device, do not disturb
// each other.
func TestLawsTwoPools(t *testing.T) {
	m, g := openGolden(t, "glm47flash", 2, nil)
	all := asks(rand.New(rand.NewPCG(1, 2)), g.VocabSize)
	formats := []glm.KVFormat{glm.KVF32, glm.KVBF16}
	wants := [][]heard{alone(t, m, formats[0], all), alone(t, m, formats[1], all)}
	var wg sync.WaitGroup
	for i, format := range formats {
		want := wants[i]
		p := newPool(t, m, glm.PoolConfig{Tokens: 4096, KV: format})
		wg.Go(func() {
			for round := range 2 {
				same(t, format.String(), all, together(t, p, rand.New(rand.NewPCG(uint64(round), 3)), all), want)
			}
		})
	}
	wg.Wait()
}

// A request that gave its pages to an older one and was computed again answers
// the same bits.
func TestLawsRequeued(t *testing.T) {
	eachLaw(t, func(t *testing.T, name string, format glm.KVFormat, seed func() *rand.Rand) {
		gate := &gate{}
		m, g := openGolden(t, name, 2, gate.watch())
		rng := seed()
		all := asks(rng, g.VocabSize)
		all = slices.DeleteFunc(all, func(a ask) bool { return len(a.r.Tokens) > 160 })
		for i := range all {
			all[i].r.Tokens = all[i].r.Tokens[:min(len(all[i].r.Tokens), 40+i)]
			all[i].r.MaxTokens = 90
			s := *all[i].r.Sampling
			s.LogitBias = map[int32]float32{}
			for id := range int32(4) {
				s.LogitBias[int32(g.VocabSize)-1-id] = -1e4
			}
			all[i].r.Sampling = &s
		}
		want := alone(t, m, format, all)
		events := map[string]int{}
		audit := auditor(func(event string, _ map[string]slog.Value) { events[event]++ })
		p := newPool(t, m, glm.PoolConfig{Tokens: 11 * 32, KV: format, Admission: glm.Clamp, Audit: audit})
		same(t, "requeued", all, atOnce(t, p, gate, rng, all), want) // so that they grow side by side
		if err := errors.Join(p.Check(), p.Close()); err != nil {
			t.Error(err)
		}
		if events["requeued"] == 0 {
			t.Errorf("nothing was requeued: %v", events)
		}
	})
}
