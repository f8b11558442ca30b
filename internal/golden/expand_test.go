package golden_test

import (
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// expand asks every attention of the model for expanded keys.
func (e *engine) expand() (ops int) {
	for _, op := range e.m.Program {
		if attend, ok := op.(*backend.MLAAttend); ok {
			attend.Expand = true
			ops++
		}
	}
	return ops
}

// With expanded prefill every logit is the reference's, in one step and in chunks;
// its bits may be others.
func TestExpandedReference(t *testing.T) {
	each(t, func(t *testing.T, g *golden.Golden) {
		rows := rowsNeeded(g)
		e := open(t, g, cpu.Open(2), rows, 2*len(g.Prompts)*(rows/pageSize+1), backend.KVF32)
		if e.expand() == 0 {
			return // no latent attention
		}
		worst := 0.0
		for i := range g.Prompts {
			p := &g.Prompts[i]
			for _, size := range []int{rows, 23} {
				s := &sequence{tag: uint64(i + 1)}
				for ids := p.Fed(); len(ids) > 0; {
					n := min(size, len(ids))
					at := s.n
					logits, _ := e.step(t, chunk{s: s, ids: ids[:n]})
					for j, have := range logits {
						d := farthest(have, p.Logits[at+j])
						if !(d <= logitBound) {
							t.Fatalf("prompt %d, position %d in chunks of %d: logits differ by %g", i, at+j, size, d)
						}
						worst = max(worst, d)
					}
					ids = ids[n:]
				}
			}
		}
		t.Logf("largest difference of a logit %.2g", worst)
	})
}

// The embedded model's prompts, absorbed and expanded: within the bound, and not
// the same bits, or nothing was expanded.
func TestTinyExpanded(t *testing.T) {
	want, absorbed := openTiny(t, cpu.Open(0), 0)
	_, expanded := openTiny(t, cpu.Open(0), 0)
	expanded.expand()
	worst, same := 0.0, true
	for i, p := range want.Prompts {
		s, o := &sequence{tag: uint64(i + 1)}, &sequence{tag: uint64(i + 1)}
		a, _ := absorbed.step(t, chunk{s: s, ids: p.Prompt})
		b, _ := expanded.step(t, chunk{s: o, ids: p.Prompt})
		for pos := range a {
			for j, x := range a[pos] {
				same = same && math.Float32bits(x) == math.Float32bits(b[pos][j])
			}
			worst = max(worst, farthest(a[pos], b[pos]))
		}
		absorbed.release(s)
		expanded.release(o)
	}
	t.Logf("largest difference of a logit %.2g", worst)
	if !(worst <= logitBound) {
		t.Errorf("logits differ by %g", worst)
	}
	if same {
		t.Error("every bit is the same")
	}
}
