package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// A GGUF file is a header, key-value pairs, a list of tensors with their offsets, and
// their data, each aligned to 32 bytes (ggml-org/ggml, docs/gguf.md).

// tensor is a tensor of the file.
type tensor struct {
	name  string
	shape []int // slowest last, as GGUF has it
	kind  tensorType
	rows  int                       // encoded one by one
	row   func(dst []byte, row int) // writes one
}

func (t tensor) size() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return t.kind.size(n)
}

// mix says in which types a model is written: those of routed and other matrices, and
// those of the head and of kv_b, which ours keeps at eight bits in an int4 model.
type mix struct{ matrices, head, kvb string }

// mixes are the files beside which ours is measured, by name; bytes per weight are
// those of our format of that width.
var mixes = map[string]mix{
	"bf16": {"BF16", "BF16", "BF16"},
	"q8_0": {"Q8_0", "Q8_0", "Q8_0"},
	"q4_0": {"Q4_0", "Q8_0", "Q8_0"},
	"q4_k": {"Q4_K", "Q8_0", "Q8_0"},
}

// matrix is a tensor of one or more matrices of the published names.
func matrix(name, kind string, rows, cols int, from ...string) tensor {
	t := tensor{name: name, shape: []int{cols, rows}, kind: types[kind], rows: rows * len(from)}
	if len(from) > 1 {
		t.shape = append(t.shape, len(from))
	}
	list := make([]synthetic.Matrix, len(from))
	for i, f := range from {
		list[i] = synthetic.MatrixOf(f, rows, cols)
	}
	t.row = func(dst []byte, r int) { t.kind.encode(dst, source{list[r/rows], r % rows}) }
	return t
}

func vector(name, from string, n int) tensor {
	values := synthetic.Vector(from, n)
	return tensor{name: name, shape: []int{n}, kind: types["F32"], rows: 1, row: func(dst []byte, _ int) {
		for i, v := range values {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	}}
}

// keyHalf is W_uk, transposed by head: [heads, latent, nope].
func keyHalf(name, kind, from string, heads, nope, vdim, latent int) tensor {
	kvb := synthetic.MatrixOf(from, heads*(nope+vdim), latent)
	t := tensor{name: name, shape: []int{nope, latent, heads}, kind: types[kind], rows: heads * latent}
	t.row = func(dst []byte, r int) {
		values := make([]float32, nope)
		for i := range values {
			values[i] = kvb.At(r/latent*(nope+vdim)+i, r%latent)
		}
		for i, v := range values {
			switch kind {
			case "BF16":
				binary.LittleEndian.PutUint16(dst[2*i:], uint16(math.Float32bits(v)>>16))
			case "Q8_0":
				if i%32 == 0 {
					putQ8(dst[i/32*34:], values[i:i+32])
				}
			}
		}
	}
	return t
}

// valueHalf is W_uv by head: [heads, v, latent].
func valueHalf(name, kind, from string, heads, nope, vdim, latent int) tensor {
	kvb := synthetic.MatrixOf(from, heads*(nope+vdim), latent)
	t := tensor{name: name, shape: []int{latent, vdim, heads}, kind: types[kind], rows: heads * vdim}
	t.row = func(dst []byte, r int) { t.kind.encode(dst, source{kvb, r/vdim*(nope+vdim) + nope + r%vdim}) }
	return t
}

// tensors lists a GLM-4.7-Flash model as the architecture deepseek2 names it.
func tensors(c *checkpoint.Config, x mix) (list []tensor) {
	add := func(t ...tensor) { list = append(list, t...) }
	add(matrix("token_embd.weight", "BF16", c.Vocab, c.Hidden, "model.embed_tokens.weight"),
		vector("output_norm.weight", "model.norm.weight", c.Hidden),
		matrix("output.weight", x.head, c.Vocab, c.Hidden, "lm_head.weight"))
	for i := range c.Layers {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		attention := from + "self_attn."
		kvb := attention + "kv_b_proj.weight"
		add(vector(to+"attn_norm.weight", from+"input_layernorm.weight", c.Hidden),
			matrix(to+"attn_q_a.weight", x.matrices, c.QLoraRank, c.Hidden, attention+"q_a_proj.weight"),
			vector(to+"attn_q_a_norm.weight", attention+"q_a_layernorm.weight", c.QLoraRank),
			matrix(to+"attn_q_b.weight", x.matrices, c.Heads*(c.QKNope+c.QKRope), c.QLoraRank, attention+"q_b_proj.weight"),
			matrix(to+"attn_kv_a_mqa.weight", x.matrices, c.KVLoraRank+c.QKRope, c.Hidden, attention+"kv_a_proj_with_mqa.weight"),
			vector(to+"attn_kv_a_norm.weight", attention+"kv_a_layernorm.weight", c.KVLoraRank),
			keyHalf(to+"attn_k_b.weight", x.kvb, kvb, c.Heads, c.QKNope, c.VDim, c.KVLoraRank),
			valueHalf(to+"attn_v_b.weight", x.kvb, kvb, c.Heads, c.QKNope, c.VDim, c.KVLoraRank),
			matrix(to+"attn_output.weight", x.matrices, c.Hidden, c.Heads*c.VDim, attention+"o_proj.weight"),
			vector(to+"ffn_norm.weight", from+"post_attention_layernorm.weight", c.Hidden))
		block := func(suffix string, width int, names ...string) {
			for _, p := range []struct {
				to, from   string
				rows, cols int
			}{{"ffn_gate", "gate_proj", width, c.Hidden}, {"ffn_up", "up_proj", width, c.Hidden}, {"ffn_down", "down_proj", c.Hidden, width}} {
				var parts []string
				for _, n := range names {
					parts = append(parts, from+"mlp."+n+p.from+".weight")
				}
				add(matrix(to+p.to+suffix+".weight", x.matrices, p.rows, p.cols, parts...))
			}
		}
		if !c.SparseLayer(i) {
			block("", c.DenseIntermediate, "")
			continue
		}
		add(matrix(to+"ffn_gate_inp.weight", "F32", c.Experts, c.Hidden, from+"mlp.gate.weight"),
			vector(to+"exp_probs_b.bias", from+"mlp.gate.e_score_correction_bias", c.Experts))
		var experts []string
		for e := range c.Experts {
			experts = append(experts, fmt.Sprintf("experts.%d.", e))
		}
		block("_exps", c.MoEIntermediate, experts...)
		block("_shexp", c.MoEIntermediate, "shared_experts.")
	}
	return list
}

// metadata returns the key-value pairs and their number.
func metadata(c *checkpoint.Config) (data []byte, count uint64) {
	text := func(s string) []byte { return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...) }
	put := func(key string, kind uint32, value []byte) {
		data = append(data, text(key)...)
		data = append(binary.LittleEndian.AppendUint32(data, kind), value...)
		count++
	}
	number := func(key string, n int) { put("deepseek2."+key, 4, binary.LittleEndian.AppendUint32(nil, uint32(n))) }
	float := func(key string, x float64) {
		put("deepseek2."+key, 6, binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x))))
	}
	dense := 0
	for dense < c.Layers && !c.SparseLayer(dense) {
		dense++
	}
	put("general.architecture", 8, text("deepseek2"))
	put("general.name", 8, text("synthetic GLM-4.7-Flash"))
	put("tokenizer.ggml.model", 8, text("no_vocab"))
	number("vocab_size", c.Vocab)
	number("context_length", c.MaxPositions)
	number("embedding_length", c.Hidden)
	number("block_count", c.Layers)
	number("leading_dense_block_count", dense)
	number("feed_forward_length", c.DenseIntermediate)
	number("expert_feed_forward_length", c.MoEIntermediate)
	number("expert_count", c.Experts)
	number("expert_used_count", c.TopK)
	number("expert_shared_count", c.SharedExperts)
	number("expert_gating_func", 2) // sigmoid
	float("expert_weights_scale", c.RoutedScale)
	put("deepseek2.expert_weights_norm", 7, []byte{1})
	number("attention.head_count", c.Heads)
	number("attention.head_count_kv", 1)
	number("attention.q_lora_rank", c.QLoraRank)
	number("attention.kv_lora_rank", c.KVLoraRank)
	number("attention.key_length", c.KVLoraRank+c.QKRope)
	number("attention.value_length", c.KVLoraRank)
	number("attention.key_length_mla", c.QKNope+c.QKRope)
	number("attention.value_length_mla", c.VDim)
	float("attention.layer_norm_rms_epsilon", c.RMSEps)
	number("rope.dimension_count", c.QKRope)
	float("rope.freq_base", c.Rope.Theta)
	return data, count
}

const alignment = 32

func align(n int) int { return (n + alignment - 1) / alignment * alignment }

// writeGGUF writes a synthetic model to a file.
func writeGGUF(path string, c *checkpoint.Config, x mix) (err error) {
	list := tensors(c, x)
	pairs, count := metadata(c)
	head := []byte("GGUF")
	head = binary.LittleEndian.AppendUint32(head, 3) // version
	head = binary.LittleEndian.AppendUint64(head, uint64(len(list)))
	head = binary.LittleEndian.AppendUint64(head, count)
	head = append(head, pairs...)
	at := 0
	for _, t := range list {
		head = binary.LittleEndian.AppendUint64(head, uint64(len(t.name)))
		head = append(head, t.name...)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(t.shape)))
		for _, d := range t.shape {
			head = binary.LittleEndian.AppendUint64(head, uint64(d))
		}
		head = binary.LittleEndian.AppendUint32(head, t.kind.id)
		head = binary.LittleEndian.AppendUint64(head, uint64(at))
		at += align(t.size())
	}
	head = append(head, make([]byte, align(len(head))-len(head))...)

	// Under another name until it is whole.
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(head); err != nil {
		return err
	}
	for _, t := range list {
		if err := t.write(f); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// write encodes rows with all processors, some megabytes at a time, and pads them.
func (t tensor) write(w io.Writer) error {
	size := t.size() / t.rows
	each := min(t.rows, max(1, 16<<20/size))
	buf := make([]byte, each*size)
	for first := 0; first < t.rows; first += each {
		n := min(each, t.rows-first)
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		for k := range workers {
			wg.Go(func() {
				for r := k * n / workers; r < (k+1)*n/workers; r++ {
					t.row(buf[r*size:][:size], first+r)
				}
			})
		}
		wg.Wait()
		if _, err := w.Write(buf[:n*size]); err != nil {
			return err
		}
	}
	_, err := w.Write(make([]byte, align(t.size())-t.size()))
	return err
}
