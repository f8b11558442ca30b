package golden_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// A row's bits do not depend on the chunk it came in, its neighbours, padding,
// the pages it lies on or the number of threads.
func TestRowInvariance(t *testing.T) {
	each(t, func(t *testing.T, g *golden.Golden) {
		for _, format := range []backend.KVFormat{backend.KVF32, backend.KVBF16} {
			t.Run(format.String(), func(t *testing.T) { invariance(t, g, cpu.AsStored, format) })
		}
	})
}

// The same with rounded weights, whose products round the activations too.
func TestPackedRowInvariance(t *testing.T) {
	each(t, func(t *testing.T, g *golden.Golden) {
		for _, p := range packed {
			t.Run(p.format.String(), func(t *testing.T) { invariance(t, g, p.format, backend.KVF32) })
		}
	})
}

func invariance(t *testing.T, g *golden.Golden, weights cpu.Format, format backend.KVFormat) {
	prompts := make([][]int32, len(g.Prompts))
	total := 0
	for i := range g.Prompts {
		prompts[i] = g.Prompts[i].Fed()
		total += len(prompts[i])
	}
	if len(prompts) == 1 { // a second sequence for batches: the first one reversed
		p := prompts[0]
		q := make([]int32, len(p))
		for i, id := range p {
			q[len(p)-1-i] = id
		}
		prompts, total = append(prompts, q), 2*total
	}
	rows, pages := total+16, 2*total/pageSize+4*len(prompts)

	// The reference run: each prompt alone, in one step, on one thread.
	want := make([][][]float32, len(prompts))
	e := open(t, g, openPacked(1, weights), rows, pages, format)
	for i, p := range prompts {
		want[i], _ = e.step(t, chunk{s: &sequence{tag: uint64(i + 1)}, ids: p})
	}

	counts := []int{1, 2, 3, 4, 5, 6, 7, 8}
	if testing.Short() {
		counts = []int{1, 3}
	}
	for _, threads := range counts {
		t.Run(fmt.Sprintf("threads=%d", threads), func(t *testing.T) {
			e := open(t, g, openPacked(threads, weights), rows, pages, format)
			rng := rand.New(rand.NewPCG(uint64(threads), 7))
			// In as few steps as may be, token by token, and two mixtures.
			for _, bound := range []int{total, 1, []int{2, 3, 5, 7, 11, 17, 33, 64}[threads-1], 1 + rng.IntN(40)} {
				e.mix(t, rng, prompts, want, bound)
			}
		})
	}
}

// mix feeds all prompts in random chunks of at most bound rows, batched at
// random with random padding, and compares every logit's bits.
func (e *engine) mix(t *testing.T, rng *rand.Rand, prompts [][]int32, want [][][]float32, bound int) {
	t.Helper()
	seqs := make([]*sequence, len(prompts))
	for i := range seqs {
		seqs[i] = &sequence{tag: rng.Uint64()}
	}
	for {
		var chunks []chunk
		var who []int
		for _, i := range rng.Perm(len(prompts)) {
			left := prompts[i][seqs[i].n:]
			if len(left) == 0 || len(chunks) > 0 && rng.IntN(3) == 0 {
				continue
			}
			n := min(len(left), bound, 1+rng.IntN(bound))
			chunks = append(chunks, chunk{s: seqs[i], ids: left[:n], pad: rng.IntN(3)})
			who = append(who, i)
		}
		if len(chunks) == 0 {
			break
		}
		have, _ := e.step(t, chunks...)
		for j, c := range chunks {
			for k := range c.ids {
				pos := c.s.n - len(c.ids) + k
				if at, ok := sameBits(have[0], want[who[j]][pos]); !ok {
					t.Fatalf("prompt %d, position %d, chunks of at most %d: logit %d is %x alone and %x here",
						who[j], pos, bound, at, math.Float32bits(want[who[j]][pos][at]), math.Float32bits(have[0][at]))
				}
				have = have[1:]
			}
		}
	}
	for _, s := range seqs { // back to the end of the free list
		e.free = append(e.free, s.pages...)
	}
}

func sameBits(a, b []float32) (at int, ok bool) {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i, false
		}
	}
	return 0, len(a) == len(b)
}
