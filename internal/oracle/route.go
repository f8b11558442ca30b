package oracle

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// route is sigmoid routing with a correction bias (DeepSeek-V3, arXiv 2412.19437,
// section 2.1.2). The bias takes part in choosing, never in weighing, and
// the sigmoid is kept apart from it: with a bias near 7, s + b - b has lost it.
// Both are rounded to f32 before they are compared, because the published
// models compute them in f32 and ties are f32 ties.
func (p *pass) route(op *backend.Route) {
	plan := p.o.plans[op.Dst]
	if op.K > plan.k {
		panic("a plan is too small for its operation")
	}
	bias := p.vector(op.Bias)
	for _, r := range p.live {
		x := rmsNorm(p.row(op.H, r), p.vector(op.Norm), op.Eps)
		logits := p.times(op.Gate, x)

		s := make([]float64, len(logits))
		choice := make([]float64, len(logits))
		for e, l := range logits {
			score := float32(1 / (1 + math.Exp(-l)))
			s[e] = float64(score)
			choice[e] = float64(score + float32(bias[e]))
		}

		chosen := largest(choice, op.K)
		if len(chosen) < op.K { // NaN left too few to choose from
			p.fail(r, backend.NonFinite)
		}
		plan.ids[r] = chosen
		plan.weights[r] = expertWeights(s, chosen, op.Renorm, float64(op.Scale))
		p.put(op.X, r, x, false)
	}
}

// expertWeights takes the chosen sigmoids, makes them sum to 1 if asked to, and
// then scales.
func expertWeights(s []float64, chosen []int, renorm bool, scale float64) []float64 {
	sum := 0.0
	for _, e := range chosen {
		sum += s[e]
	}
	weights := make([]float64, len(chosen))
	for j, e := range chosen {
		weights[j] = s[e]
		if renorm {
			weights[j] /= sum + 1e-20
		}
		weights[j] *= scale
	}
	return weights
}
