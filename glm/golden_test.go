package glm_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// The public API gives the reference's greedy ids on every golden.
func TestGoldenGreedy(t *testing.T) { goldenGreedy(t, glm.Config{}) }

// And it does with expanded prefill.
func TestGoldenGreedyFastPrefill(t *testing.T) { goldenGreedy(t, glm.Config{FastPrefill: true}) }

func goldenGreedy(t *testing.T, c glm.Config) {
	names, err := golden.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			g, err := golden.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			c := c
			c.LatentEps = g.LatentEps
			m, err := glm.Open(t.Context(), filepath.Clean(g.Dir), c)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			p, err := m.NewKVPool(glm.PoolConfig{Tokens: 2048, AllowSmallerPool: true})
			if err != nil {
				t.Fatal(err)
			}
			for i, prompt := range g.Prompts {
				for turn := range 2 { // cold, then with the prefix in the pool
					r, err := glm.Collect(p.Generate(t.Context(), "tenant", glm.Request{Tokens: prompt.IDs, MaxTokens: len(prompt.Greedy), Sampling: &glm.Sampling{}}))
					if err != nil {
						t.Fatal(err)
					}
					have := make([]int32, len(r.Tokens))
					for j, tok := range r.Tokens {
						have[j] = tok.ID
					}
					want := prompt.Greedy // up to the first id that ends a turn
					if !slices.Equal(have, want[:len(have)]) || r.Reason == glm.FinishLength && len(have) != len(want) {
						t.Fatalf("prompt %d, turn %d: ids %v, want %v", i, turn, have, want)
					}
					t.Logf("prompt %d: %s, %+v", i, r.Reason, r.Usage)
				}
			}
		})
	}
}
