package golden_test

import (
	"math"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

const (
	logitBound  = 1e-4 // absolute, at every position
	weightBound = 1e-5 // of a router weight, absolute
)

// Every logit, selection and router choice is the reference's.
func TestReference(t *testing.T) {
	each(t, func(t *testing.T, g *golden.Golden) {
		for _, impl := range tested() {
			t.Run(impl.name, func(t *testing.T) {
				rows := rowsNeeded(g)
				e := open(t, g, impl.open(), rows, len(g.Prompts)*(rows/pageSize+1), backend.KVF32)
				worst := 0.0
				for i := range g.Prompts {
					p := &g.Prompts[i]
					logits, _ := e.step(t, chunk{s: &sequence{tag: uint64(i + 1)}, ids: p.Fed()})
					for pos, have := range logits {
						d := farthest(have, p.Logits[pos])
						if !(d <= logitBound) {
							t.Fatalf("prompt %d, position %d: logits differ by %g", i, pos, d)
						}
						worst = max(worst, d)
					}
					compareSelections(t, e, p)
					compareRoutes(t, e, p)
				}
				t.Logf("largest difference of a logit %.2g (the reference's own f32 to f64: %.2g)", worst, g.Noise)
			})
		}
	})
}

func compareSelections(t *testing.T, e *engine, p *golden.Prompt) {
	t.Helper()
	for layer, want := range p.Selected {
		if e.m.Selections[layer] == 0 {
			t.Fatalf("layer %d selects in the reference and not here", layer)
		}
		for row, have := range e.b.ReadSelection(e.m.Selections[layer], len(want)) {
			if !slices.Equal(have, want[row]) {
				t.Fatalf("layer %d, position %d: selected %v, want %v", layer, row, have, want[row])
			}
		}
	}
	for layer, s := range e.m.Selections {
		if s != 0 && p.Selected[layer] == nil {
			t.Fatalf("layer %d selects here and not in the reference", layer)
		}
	}
}

func compareRoutes(t *testing.T, e *engine, p *golden.Prompt) {
	t.Helper()
	for layer, want := range p.Routed {
		ids, weights := e.b.ReadPlan(e.m.Plans[layer], len(want))
		for row := range want {
			if !slices.Equal(ids[row], want[row].Experts) {
				t.Fatalf("layer %d, position %d: experts %v, want %v", layer, row, ids[row], want[row].Experts)
			}
			if d := farthest(weights[row], want[row].Weights); !(d <= weightBound) {
				t.Fatalf("layer %d, position %d: router weights differ by %g", layer, row, d)
			}
		}
	}
}

// Prompt in one step, then token by token: the reference's 64 greedy ids.
func TestGreedy(t *testing.T) {
	each(t, func(t *testing.T, g *golden.Golden) {
		for _, impl := range tested() {
			t.Run(impl.name, func(t *testing.T) {
				rows := rowsNeeded(g)
				e := open(t, g, impl.open(), rows, len(g.Prompts)*(rows/pageSize+1), backend.KVF32)
				for i := range g.Prompts {
					p := &g.Prompts[i]
					s := &sequence{tag: uint64(i + 1)}
					_, ids := e.step(t, chunk{s: s, ids: p.IDs})
					have := []int32{ids[len(ids)-1]}
					for len(have) < len(p.Greedy) {
						_, ids = e.step(t, chunk{s: s, ids: have[len(have)-1:]})
						have = append(have, ids[0])
					}
					if !slices.Equal(have, p.Greedy) {
						t.Fatalf("prompt %d: greedy ids %v, want %v", i, have, p.Greedy)
					}
				}
			})
		}
	})
}

func farthest(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range a {
		if d := math.Abs(float64(a[i]) - float64(b[i])); d > worst || d != d {
			worst = d
		}
	}
	return worst
}
