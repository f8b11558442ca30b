package golden_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// packed are the formats that weights can be rounded to, with how far the logits
// may be from the reference's: root mean square of the difference, over that of the
// logits about their mean; logits of another input differ by 1.4. The checkpoints
// are noise: what rounding turns round in a choice of experts, and still more of
// keys, nothing puts right again.
var packed = []struct {
	format        cpu.Format
	dense, sparse float64
}{{cpu.Int8, 0.15, 0.8}, {cpu.Int4, 0.55, 1}}

func openPacked(threads int, f cpu.Format) backend.Backend {
	return cpu.Open(threads).Packer(func(name string) cpu.Format { return cpu.FormatOf(name, f) })
}

// Rounded weights give the reference's logits, less what was rounded off.
func TestPackedReference(t *testing.T) {
	each(t, func(t *testing.T, g *golden.Golden) {
		for _, p := range packed {
			t.Run(p.format.String(), func(t *testing.T) {
				rows := rowsNeeded(g)
				e := open(t, g, openPacked(0, p.format), rows, len(g.Prompts)*(rows/pageSize+1), backend.KVF32)
				var d deviation
				for i := range g.Prompts {
					prompt := &g.Prompts[i]
					logits, _ := e.step(t, chunk{s: &sequence{tag: uint64(i + 1)}, ids: prompt.Fed()})
					for pos, have := range logits {
						d.add(have, prompt.Logits[pos])
					}
				}
				bound := p.dense
				if g.IndexTopK > 0 {
					bound = p.sparse
				}
				if r := d.relative(); !(r <= bound) || r == 0 {
					t.Errorf("%v, want above 0 and at most %g", d, bound)
				} else {
					t.Log(d)
				}
			})
		}
	})
}

// A trained model is less easily put off: the embedded one's logits after its ten
// prompts. What rounding costs it in perplexity, internal/bench/quality measures.
func TestTinyPacked(t *testing.T) {
	for _, p := range []struct {
		format cpu.Format
		bound  float64
	}{{cpu.Int8, 0.06}, {cpu.Int4, 0.3}} {
		t.Run(p.format.String(), func(t *testing.T) {
			want, e := openTiny(t, openPacked(0, p.format), 0)
			logits := want.logits(t)
			var d deviation
			for i, prompt := range want.Prompts {
				s := &sequence{tag: uint64(i + 1)}
				rows, _ := e.step(t, chunk{s: s, ids: prompt.Prompt})
				d.add(rows[len(rows)-1], logits[i])
				e.release(s)
			}
			if r := d.relative(); !(r <= p.bound) || r == 0 {
				t.Errorf("%v, want above 0 and at most %g", d, p.bound)
			} else {
				t.Log(d)
			}
		})
	}
}

// deviation sums up how far logits are from a reference's.
type deviation struct{ error, spread, worst, n, agree float64 }

func (d *deviation) add(have, want []float32) {
	mean := 0.0
	for _, w := range want {
		mean += float64(w) / float64(len(want))
	}
	best, first := 0, 0
	for i, w := range want {
		x := float64(have[i]) - float64(w)
		d.error += x * x
		d.spread += math.Pow(float64(w)-mean, 2)
		d.worst = max(d.worst, math.Abs(x))
		if have[i] > have[best] {
			best = i
		}
		if w > want[first] {
			first = i
		}
	}
	d.n++
	if best == first {
		d.agree++
	}
}

func (d *deviation) relative() float64 { return math.Sqrt(d.error / d.spread) }

func (d deviation) String() string {
	return fmt.Sprintf("logits differ by %.3f of their spread, by %.3g at most; %.1f %% have the same largest one", d.relative(), d.worst, 100*d.agree/d.n)
}
