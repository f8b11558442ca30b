package oracle

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// linear: y = W x + bias.
func (p *pass) linear(op *backend.Linear) {
	for _, r := range p.live {
		p.put(op.Dst, r, p.affine(op.W, op.Bias, p.row(op.X, r)), op.Add)
	}
}

// mlp is SwiGLU (arXiv 2002.05202) over the normalised hidden state.
func (p *pass) mlp(op *backend.MLP) {
	for _, r := range p.live {
		x := rmsNorm(p.row(op.H, r), p.vector(op.Norm), op.Eps)
		p.put(op.Dst, r, p.swiGLU(x, op.Gate, op.Up, op.Down, op.Clamp), op.Add)
	}
}

func (p *pass) sharedExpert(op *backend.SharedExpert) {
	for _, r := range p.live {
		p.put(op.Dst, r, p.swiGLU(p.row(op.X, r), op.Gate, op.Up, op.Down, op.Clamp), op.Add)
	}
}

// experts: the sum of the row's experts in the order of its selection.
func (p *pass) experts(op *backend.Experts) {
	plan := p.o.plans[op.Plan]
	for _, r := range p.live {
		x := p.row(op.X, r)
		y := make([]float64, len(p.row(op.Dst, r)))
		for j, e := range plan.ids[r] {
			floats.AddScaled(y, plan.weights[r][j], p.swiGLU(x, op.Gate[e], op.Up[e], op.Down[e], op.Clamp))
		}
		p.put(op.Dst, r, y, op.Add)
	}
}

// swiGLU computes Down(silu(Gate x) * (Up x)), silu(g) = g / (1 + e^-g). The
// clamp bounds the gate from above only, the other factor from both sides.
func (p *pass) swiGLU(x []float64, gate, up, down backend.Weight, clamp float32) []float64 {
	g := p.times(gate, x)
	u := p.times(up, x)
	for i := range g {
		if limit := float64(clamp); clamp > 0 {
			g[i] = math.Min(g[i], limit)
			u[i] = math.Max(-limit, math.Min(u[i], limit))
		}
		g[i] = g[i] / (1 + math.Exp(-g[i])) * u[i]
	}
	return p.times(down, g)
}

// finalNorm normalises the last hidden state. A row whose hidden state is not finite fails here.
func (p *pass) finalNorm(op *backend.FinalNorm) {
	for _, r := range p.live {
		h := p.row(op.H, r)
		n := rmsNorm(h, p.vector(op.Norm), op.Eps)
		if !finite(h) || !finite(n) {
			p.fail(r, backend.NonFinite)
		}
		p.put(op.Dst, r, n, false)
	}
}

func finite(x []float64) bool {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
