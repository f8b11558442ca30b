package decoder

import "github.com/cofferdam-ml/cofferdam/internal/backend"

// projections are the buffers between projection and attention; every layer
// overwrites what it reads.
type projections struct{ q, cq backend.Buffer }

type indexBuffers struct{ q, w backend.Buffer }

func (g *builder) rope() backend.Rope {
	return backend.Rope{Dim: g.c.Rope.Dims, Theta: g.c.Rope.Theta}
}

// mla adds multi-head latent attention, with the indexer where the layer runs
// one and with the carried selection where it does not.
func (g *builder) mla(i int) {
	c := g.c
	if i == 0 {
		g.proj = projections{q: g.buffer(c.Heads * (c.QKNope + c.QKRope)), cq: g.buffer(c.QLoraRank)}
		g.out = g.buffer(c.Heads * c.VDim)
		if c.Index.TopK > 0 {
			g.index = indexBuffers{q: g.buffer(c.Index.Heads * c.Index.HeadDim), w: g.buffer(c.Index.Heads)}
		}
	}
	latent := g.plane(c.KVLoraRank + c.QKRope)
	g.add(&backend.MLAProject{
		H:    g.h,
		Norm: g.layer(i, "input_layernorm.weight"),
		QA:   g.layer(i, "self_attn.q_a_proj.weight"), QNorm: g.layer(i, "self_attn.q_a_layernorm.weight"),
		QB:  g.layer(i, "self_attn.q_b_proj.weight"),
		KVA: g.layer(i, "self_attn.kv_a_proj_with_mqa.weight"), KVNorm: g.layer(i, "self_attn.kv_a_layernorm.weight"),
		Eps: float32(c.RMSEps), LatentEps: float32(c.LatentEps),
		Heads: c.Heads, Nope: c.QKNope, Latent: c.KVLoraRank,
		Rope: g.rope(), Plane: latent,
		X: g.x, CQ: g.proj.cq, Q: g.proj.q,
	})
	if c.IndexLayer(i) {
		g.indexer(i)
	}
	g.add(
		&backend.MLAAttend{
			Q: g.proj.q, Sel: g.sel, KVB: g.kvb(i), Plane: latent,
			Heads: c.Heads, Nope: c.QKNope, Rope: c.QKRope, V: c.VDim, Latent: c.KVLoraRank,
			Scale: perRoot(c.QKNope + c.QKRope), Expand: g.o.Expand, Dst: g.out,
		},
		&backend.Linear{X: g.out, W: g.layer(i, "self_attn.o_proj.weight"), Dst: g.h, Add: true},
	)
}

// indexer adds the layer's own choice of keys, carried until the next one.
func (g *builder) indexer(i int) {
	c := g.c
	keys := g.plane(c.Index.HeadDim)
	g.selection(i)
	g.add(
		&backend.IndexProject{
			X: g.x, CQ: g.proj.cq,
			WQB:       g.layer(i, "self_attn.indexer.wq_b.weight"),
			WK:        g.layer(i, "self_attn.indexer.wk.weight"),
			KNorm:     g.layer(i, "self_attn.indexer.k_norm.weight"),
			KNormBias: g.layer(i, "self_attn.indexer.k_norm.bias"), WeightsProj: g.layer(i, "self_attn.indexer.weights_proj.weight"),
			Heads: c.Index.Heads, HeadDim: c.Index.HeadDim,
			Rope: g.rope(), Plane: keys,
			Q: g.index.q, W: g.index.w,
		},
		&backend.IndexSelect{
			Q: g.index.q, W: g.index.w, Heads: c.Index.Heads, HeadDim: c.Index.HeadDim,
			Plane: keys, K: g.topK(), Dst: g.sel,
		},
	)
}

// gqa adds grouped-query attention.
func (g *builder) gqa(i int) {
	c := g.c
	if i == 0 {
		g.proj = projections{q: g.buffer(c.Heads * c.HeadDim)}
		g.out = g.buffer(c.Heads * c.HeadDim)
	}
	op := &backend.GQAProject{
		H:    g.h,
		Norm: g.layer(i, "input_layernorm.weight"),
		Q:    g.layer(i, "self_attn.q_proj.weight"),
		K:    g.layer(i, "self_attn.k_proj.weight"),
		V:    g.layer(i, "self_attn.v_proj.weight"),
		Eps:  float32(c.RMSEps), Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Rope:   g.rope(),
		KPlane: g.plane(c.KVHeads * c.HeadDim), VPlane: g.plane(c.KVHeads * c.HeadDim),
		X: g.x, Dst: g.proj.q,
	}
	if c.AttentionBias {
		op.QBias = g.layer(i, "self_attn.q_proj.bias")
		op.KBias = g.layer(i, "self_attn.k_proj.bias")
		op.VBias = g.layer(i, "self_attn.v_proj.bias")
	}
	if c.UseQKNorm {
		op.QNorm = g.layer(i, "self_attn.q_norm.weight")
		op.KNorm = g.layer(i, "self_attn.k_norm.weight")
	}
	g.add(op,
		&backend.GQAAttend{
			Q: g.proj.q, KPlane: op.KPlane, VPlane: op.VPlane,
			Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
			Scale: perRoot(c.HeadDim), Dst: g.out,
		},
		&backend.Linear{X: g.out, W: g.layer(i, "self_attn.o_proj.weight"), Dst: g.h, Add: true},
	)
}
