package checkpoint

import "fmt"

// nextRoot prefixes the text model of glm5_next, whose files hold a vision tower
// beside it. Text-only files leave "language_model." out.
const nextRoot = "model.language_model."

// kda makes a linear-attention layer: projections with a short depthwise
// convolution each, a low-rank decay gate (f), a low-rank output gate (g) and a
// step size per head (b).
func (w *writer) kda() {
	n, h := w.c.Next, w.c.Hidden
	wide, rank := n.LinearHeads*n.LinearHeadDim, n.LinearHeadDim
	for _, p := range []string{"q", "k", "v"} {
		w.put(KindLinear, storeLinear, "self_attn."+p+"_proj.weight", wide, h)
		w.put(KindLinear, storeBF16, "self_attn."+p+"_conv1d.weight", wide, 1, n.ConvKernel)
	}
	for _, p := range []string{"f", "g"} {
		w.put(KindLinear, storeLinear, "self_attn."+p+"_a_proj.weight", rank, h)
		w.put(KindLinear, storeLinear, "self_attn."+p+"_b_proj.weight", wide, rank)
	}
	w.put(KindLinear, storeLinear, "self_attn.b_proj.weight", n.LinearHeads, h)
	w.put(KindLinear, storeF32, "self_attn.A_log", n.LinearHeads)
	w.put(KindLinear, storeF32, "self_attn.dt_bias", wide)
	w.put(KindNorm, storeBF16, "self_attn.o_norm.weight", rank)
	w.put(KindLinear, storeLinear, "self_attn.o_proj.weight", h, wide)
}

// hyper makes a layer's two hyper-connection sites. Each maps the m streams to m
// read weights, m write weights and an m by m mixing matrix, with one scale for
// each of the three.
func (w *writer) hyper() {
	m := w.c.Next.HCMult
	rows := m * (2 + m)
	for _, site := range []string{"attn", "ffn"} {
		w.put(KindHyper, storeBF16, "hc_"+site+"_fn", rows, m*w.c.Hidden)
		w.put(KindHyper, storeF32, "hc_"+site+"_base", rows)
		w.put(KindHyper, storeF32, "hc_"+site+"_scale", 3)
	}
}

func (w *writer) vision(v *Vision) {
	put := func(name string, shape ...int) { w.put(KindVision, storeBF16, name, shape...) }
	biased := func(name string, shape ...int) {
		put(name+".weight", shape...)
		put(name+".bias", shape[0])
	}
	h, head := v.Hidden, v.Hidden/v.Heads
	biased("patch_embed.proj", h, v.Channels, v.TemporalPatch, v.Patch, v.Patch)
	for i := range v.Depth {
		b := fmt.Sprintf("blocks.%d.", i)
		put(b+"norm1.weight", h)
		put(b+"norm2.weight", h)
		biased(b+"attn.qkv", 3*h, h)
		biased(b+"attn.proj", h, h)
		put(b+"attn.q_norm.weight", head)
		put(b+"attn.k_norm.weight", head)
		biased(b+"mlp.gate_proj", v.Intermediate, h)
		biased(b+"mlp.up_proj", v.Intermediate, h)
		biased(b+"mlp.down_proj", h, v.Intermediate)
	}
	put("post_layernorm.weight", h)
	biased("downsample", v.OutHidden, h, v.Merge, v.Merge)
	put("merger.proj.weight", v.OutHidden, v.OutHidden)
	put("merger.post_projection_norm.weight", v.OutHidden)
	put("merger.post_projection_norm.bias", v.OutHidden)
	put("merger.gate_proj.weight", v.ProjectionIntermediate, v.OutHidden)
	put("merger.up_proj.weight", v.ProjectionIntermediate, v.OutHidden)
	put("merger.down_proj.weight", v.OutHidden, v.ProjectionIntermediate)
}
