package decoder

import (
	"fmt"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// mlp adds a dense feed-forward block.
func (g *builder) mlp(i int) {
	g.add(&backend.MLP{
		H:    g.h,
		Norm: g.layer(i, "post_attention_layernorm.weight"),
		Gate: g.layer(i, "mlp.gate_proj.weight"),
		Up:   g.layer(i, "mlp.up_proj.weight"),
		Down: g.layer(i, "mlp.down_proj.weight"),
		Eps:  float32(g.c.RMSEps),
		Dst:  g.h, Add: true,
	})
}

// moe adds the router, the shared expert and the routed experts.
func (g *builder) moe(i int) {
	c := g.c
	plan := g.newPlan(i)
	g.add(&backend.Route{
		H:    g.h,
		Norm: g.layer(i, "post_attention_layernorm.weight"),
		Gate: g.layer(i, "mlp.gate.weight"),
		Bias: g.layer(i, "mlp.gate.e_score_correction_bias"),
		Eps:  float32(c.RMSEps),
		K:    c.TopK, Renorm: c.NormTopKProb, Scale: float32(c.RoutedScale),
		X: g.x, Dst: plan,
	})
	g.add(&backend.SharedExpert{
		X:    g.x,
		Gate: g.layer(i, "mlp.shared_experts.gate_proj.weight"),
		Up:   g.layer(i, "mlp.shared_experts.up_proj.weight"),
		Down: g.layer(i, "mlp.shared_experts.down_proj.weight"),
		Dst:  g.h, Add: true,
	})
	op := &backend.Experts{X: g.x, Plan: plan, Dst: g.h, Add: true}
	for e := range c.Experts {
		name := fmt.Sprintf("mlp.experts.%d.", e)
		op.Gate = append(op.Gate, g.layer(i, name+"gate_proj.weight"))
		op.Up = append(op.Up, g.layer(i, name+"up_proj.weight"))
		op.Down = append(op.Down, g.layer(i, name+"down_proj.weight"))
	}
	g.add(op)
}
