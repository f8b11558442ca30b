package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

const small = `{
  "model_type": "glm4_moe_lite", "num_hidden_layers": 2, "first_k_dense_replace": 1, "vocab_size": 64,
  "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 256,
  "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 256, "kv_lora_rank": 256,
  "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 128, "rope_theta": 10000,
  "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
  "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 1.8, "rms_norm_eps": 1e-05,
  "max_position_embeddings": 4096, "attention_bias": false, "tie_word_embeddings": false, "hidden_act": "silu"
}`

// A file's tensor list leads to the values of the published names: an expert's
// matrix and both halves of kv_b, the first transposed, are looked up.
func TestFileHoldsTheModel(t *testing.T) {
	c, err := checkpoint.ParseConfig([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := writeGGUF(path, c, mixes["bf16"]); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	find := reader(t, data)

	up, shape := find("blk.1.ffn_up_exps.weight")
	if want := []uint64{256, 256, 4}; !equal(shape, want) {
		t.Fatalf("the experts' shape is %v, want %v", shape, want)
	}
	m := synthetic.MatrixOf("model.layers.1.mlp.experts.3.up_proj.weight", 256, 256)
	if got, want := bf16(up[2*(3*256*256+5*256+7):]), m.At(5, 7); got != want {
		t.Errorf("an element of expert 3 is %g, want %g", got, want)
	}

	kvb := synthetic.MatrixOf("model.layers.0.self_attn.kv_b_proj.weight", 2*(32+128), 256)
	keys, shape := find("blk.0.attn_k_b.weight")
	if want := []uint64{32, 256, 2}; !equal(shape, want) {
		t.Fatalf("the shape of k_b is %v, want %v", shape, want)
	}
	if got, want := bf16(keys[2*((1*256+9)*32+4):]), kvb.At(160+4, 9); got != want {
		t.Errorf("k_b: head 1, latent 9, nope 4 is %g, want %g", got, want)
	}
	values, _ := find("blk.0.attn_v_b.weight")
	if got, want := bf16(values[2*((1*128+6)*256+8):]), kvb.At(160+32+6, 8); got != want {
		t.Errorf("v_b: head 1, v 6, latent 8 is %g, want %g", got, want)
	}
	if _, err := os.Stat(path + ".part"); !os.IsNotExist(err) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
}

func equal(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func bf16(b []byte) float32 {
	return float32(decoders["BF16"](b, 1)[0])
}

// reader parses a file and returns a function that finds a tensor's bytes and shape.
func reader(t *testing.T, data []byte) func(name string) ([]byte, []uint64) {
	t.Helper()
	if !bytes.HasPrefix(data, []byte("GGUF\x03\x00\x00\x00")) {
		t.Fatalf("the file begins with %q", data[:8])
	}
	at := 8
	u32 := func() uint32 { at += 4; return binary.LittleEndian.Uint32(data[at-4:]) }
	u64 := func() uint64 { at += 8; return binary.LittleEndian.Uint64(data[at-8:]) }
	text := func() string { n := int(u64()); at += n; return string(data[at-n : at]) }
	count, pairs := u64(), u64()
	for range pairs {
		key := text()
		switch kind := u32(); kind {
		case 4, 6:
			u32()
		case 7:
			at++
		case 8:
			text()
		default:
			t.Fatalf("%s has a value of kind %d", key, kind)
		}
	}
	type place struct {
		shape  []uint64
		offset uint64
	}
	places := map[string]place{}
	for range count {
		name := text()
		var p place
		for range u32() {
			p.shape = append(p.shape, u64())
		}
		u32()
		p.offset = u64()
		if p.offset%32 != 0 {
			t.Fatalf("%s stands at %d", name, p.offset)
		}
		places[name] = p
	}
	base := (at + 31) / 32 * 32
	return func(name string) ([]byte, []uint64) {
		p, ok := places[name]
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		return data[base+int(p.offset):], p.shape
	}
}
