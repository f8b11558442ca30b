package checkpoint

import (
	"fmt"
	"iter"
)

// writer makes the weights of one layer, or of the parts around the layers.
type writer struct {
	c      *Config
	yield  func(weight) bool
	more   bool   // false once the consumer has stopped
	prefix string // of the names
	layer  int
	kind   Kind // overrides every kind if not empty
}

func (w *writer) put(kind Kind, s store, name string, shape ...int) {
	if !w.more {
		return
	}
	if w.kind != "" {
		kind = w.kind
	}
	w.more = w.yield(weight{name: w.prefix + name, shape: shape, kind: kind, layer: w.layer, store: s})
}

// textRoot returns what the names of the text model's tensors start with.
func textRoot(c *Config) string {
	if c.Family == GLM5Next {
		return nextRoot
	}
	return "model."
}

// weights yields every tensor that the configuration asks for, MTP layers and
// vision tower included, in an order that groups layers.
func weights(c *Config) iter.Seq[weight] {
	return func(yield func(weight) bool) {
		root := textRoot(c)
		w := &writer{c: c, yield: yield, more: true, prefix: root, layer: -1}
		w.put(KindEmbedding, storeBF16, "embed_tokens.weight", c.Vocab, c.Hidden)
		for i := range c.Layers {
			w.prefix, w.layer = fmt.Sprintf("%slayers.%d.", root, i), i
			w.decoderLayer()
		}
		w.prefix, w.layer = root, -1
		w.put(KindNorm, storeBF16, "norm.weight", c.Hidden)
		w.prefix = ""
		w.put(KindHead, storeLinear, "lm_head.weight", c.Vocab, c.Hidden)

		for i := c.Layers; i < c.Layers+c.MTPLayers; i++ {
			w.prefix, w.layer, w.kind = fmt.Sprintf("%slayers.%d.", root, i), i, KindMTP
			w.decoderLayer()
			w.draftInput()
		}
		if c.Next != nil && c.Next.Vision != nil {
			w.prefix, w.layer, w.kind = "model.visual.", -1, KindVision
			w.vision(c.Next.Vision)
		}
	}
}

func (w *writer) decoderLayer() {
	c := w.c
	w.put(KindNorm, storeBF16, "input_layernorm.weight", c.Hidden)
	w.put(KindNorm, storeBF16, "post_attention_layernorm.weight", c.Hidden)
	switch {
	case c.Family == GLM4Moe:
		w.gqa()
	case c.LinearLayer(w.layer):
		w.kda()
	default:
		w.mla()
		if c.IndexLayer(w.layer) {
			w.indexer()
		}
	}
	if c.Next != nil && w.layer < c.Layers {
		w.hyper()
	}
	if c.SparseLayer(w.layer) {
		w.experts()
	} else {
		w.mlp(KindDense, "mlp.", c.DenseIntermediate)
	}
}

// draftInput makes what an MTP layer has beyond a decoder layer.
func (w *writer) draftInput() {
	h := w.c.Hidden
	w.put(KindMTP, storeBF16, "enorm.weight", h)
	w.put(KindMTP, storeBF16, "hnorm.weight", h)
	w.put(KindMTP, storeLinear, "eh_proj.weight", h, 2*h)
	w.put(KindMTP, storeBF16, "shared_head.norm.weight", h)
}

func (w *writer) mla() {
	c := w.c
	kvB := storeFP8
	if c.Family == GLM5Next {
		kvB = storeLinear
	}
	w.put(KindAttention, storeFP8, "self_attn.q_a_proj.weight", c.QLoraRank, c.Hidden)
	w.put(KindNorm, storeBF16, "self_attn.q_a_layernorm.weight", c.QLoraRank)
	w.put(KindAttention, storeFP8, "self_attn.q_b_proj.weight", c.Heads*(c.QKNope+c.QKRope), c.QLoraRank)
	w.put(KindAttention, storeFP8, "self_attn.kv_a_proj_with_mqa.weight", c.KVLoraRank+c.QKRope, c.Hidden)
	w.put(KindNorm, storeBF16, "self_attn.kv_a_layernorm.weight", c.KVLoraRank)
	w.put(KindAttention, kvB, "self_attn.kv_b_proj.weight", c.Heads*(c.QKNope+c.VDim), c.KVLoraRank)
	w.put(KindAttention, storeFP8, "self_attn.o_proj.weight", c.Hidden, c.Heads*c.VDim)
}

func (w *writer) indexer() {
	c := w.c
	linear := storeFP8
	if c.Family == GLM5Next {
		linear = storeLinear
	}
	w.put(KindIndexer, linear, "self_attn.indexer.wq_b.weight", c.Index.Heads*c.Index.HeadDim, c.QLoraRank)
	w.put(KindIndexer, linear, "self_attn.indexer.wk.weight", c.Index.HeadDim, c.Hidden)
	w.put(KindIndexer, storeLinear, "self_attn.indexer.weights_proj.weight", c.Index.Heads, c.Hidden)
	w.put(KindIndexer, storeBF16, "self_attn.indexer.k_norm.weight", c.Index.HeadDim)
	w.put(KindIndexer, storeBF16, "self_attn.indexer.k_norm.bias", c.Index.HeadDim)
	if c.Next != nil {
		w.put(KindIndexer, storeBF16, "self_attn.indexer.index_kpool_compress_ape", c.Next.KPool, c.Index.HeadDim)
		w.put(KindIndexer, storeBF16, "self_attn.indexer.index_kpool_compress_gate", c.Index.HeadDim, c.Hidden)
	}
}

func (w *writer) gqa() {
	c := w.c
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for _, p := range []struct {
		name string
		rows int
	}{{"q", q}, {"k", kv}, {"v", kv}} {
		w.put(KindAttention, storeFP8, "self_attn."+p.name+"_proj.weight", p.rows, c.Hidden)
		if c.AttentionBias {
			w.put(KindAttention, storeBF16, "self_attn."+p.name+"_proj.bias", p.rows)
		}
	}
	w.put(KindAttention, storeFP8, "self_attn.o_proj.weight", c.Hidden, q)
	if c.UseQKNorm {
		w.put(KindNorm, storeBF16, "self_attn.q_norm.weight", c.HeadDim)
		w.put(KindNorm, storeBF16, "self_attn.k_norm.weight", c.HeadDim)
	}
}

func (w *writer) mlp(kind Kind, name string, width int) {
	h := w.c.Hidden
	w.put(kind, storeFP8, name+"gate_proj.weight", width, h)
	w.put(kind, storeFP8, name+"up_proj.weight", width, h)
	w.put(kind, storeFP8, name+"down_proj.weight", h, width)
}

func (w *writer) experts() {
	c := w.c
	w.put(KindRouter, storeBF16, "mlp.gate.weight", c.Experts, c.Hidden)
	w.put(KindRouter, storeF32, "mlp.gate.e_score_correction_bias", c.Experts)
	w.mlp(KindShared, "mlp.shared_experts.", c.SharedExperts*c.MoEIntermediate)

	all := w.yield
	w.yield = func(x weight) bool {
		x.routed = true
		return all(x)
	}
	for e := 0; e < c.Experts && w.more; e++ {
		w.mlp(KindExpert, fmt.Sprintf("mlp.experts.%d.", e), c.MoEIntermediate)
	}
	w.yield = all
}
