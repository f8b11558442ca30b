package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// config is GLM-5.3's, cut to two layers.
const config = `{
  "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa",
  "num_hidden_layers": 2, "first_k_dense_replace": 1, "num_nextn_predict_layers": 0,
  "hidden_size": 6144, "vocab_size": 154880, "intermediate_size": 12288, "moe_intermediate_size": 2048,
  "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 2048, "kv_lora_rank": 512,
  "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "qk_head_dim": 256, "head_dim": 192,
  "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
  "scoring_func": "sigmoid", "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 2.5,
  "moe_router_dtype": "float32", "rms_norm_eps": 1e-05, "hidden_act": "silu",
  "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"}, "rope_interleave": true,
  "indexer_rope_interleave": true, "max_position_embeddings": 1048576,
  "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048, "indexer_types": ["full", "shared"],
  "attention_bias": false, "tie_word_embeddings": false, "dtype": "bfloat16",
  "eos_token_id": [154820, 154827, 154829], "pad_token_id": 154820,
  "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
}
`

// shardBytes closes a shard at about the vendor's size.
const shardBytes = 5 << 30

// write makes the checkpoint: config.json last, so that a half-written
// directory is written again.
func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c, err := checkpoint.ParseConfig([]byte(config))
	if err != nil {
		return err
	}
	var shards [][]checkpoint.Entry
	size := int64(shardBytes)
	for e := range checkpoint.Inventory(c, checkpoint.LayoutFP8) {
		if size >= shardBytes {
			shards, size = append(shards, nil), 0
		}
		last := len(shards) - 1
		shards[last] = append(shards[last], e)
		size += e.Bytes()
	}
	index := struct {
		Map map[string]string `json:"weight_map"`
	}{map[string]string{}}
	for i, entries := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		for _, e := range entries {
			index.Map[e.Name] = name
		}
		if err := writeShard(filepath.Join(dir, name), entries); err != nil {
			return err
		}
	}
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644)
}

func writeShard(path string, entries []checkpoint.Entry) error {
	type tensor struct {
		DType  checkpoint.DType `json:"dtype"`
		Shape  []int            `json:"shape"`
		Offset [2]int64         `json:"data_offsets"`
	}
	header := map[string]tensor{}
	at := int64(0)
	for _, e := range entries {
		header[e.Name] = tensor{e.DType, e.Shape, [2]int64{at, at + e.Bytes()}}
		at += e.Bytes()
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(text)))
	w.Write(length[:])
	w.Write(text)
	for i, e := range entries {
		fill(w, e, uint64(i))
	}
	if err := w.Flush(); err != nil { // bufio keeps the first error
		return err
	}
	return f.Close()
}

// fill writes values of a size that keeps activations near one: weights of
// variance 1/fan-in, norms near one, router biases near seven with a spread of
// 0.1.
func fill(w *bufio.Writer, e checkpoint.Entry, seed uint64) {
	fanIn := e.Shape[len(e.Shape)-1]
	n := e.Elements()
	for i := range n {
		r := hash(seed<<40+uint64(i/8)) >> (8 * (i % 8)) // eight values a hash
		u := float64(byte(r))/127.5 - 1                  // uniform in [-1, 1]
		switch {
		case e.DType == checkpoint.F8:
			// Magnitudes 0.125 to 1.875, root mean square 0.85.
			w.WriteByte(byte(r)&0x80 | 0x20 | byte(r)&0x1f)
		case e.Scale:
			putF32(w, float32((1+0.2*u)/(0.85*math.Sqrt(float64(fanIn*checkpoint.Block)))))
		case e.DType == checkpoint.F32: // e_score_correction_bias
			putF32(w, float32(7+0.1*u))
		case len(e.Shape) == 1:
			putBF16(w, float32(1+0.1*u))
		case e.Kind == checkpoint.KindEmbedding:
			putBF16(w, float32(1.7*u))
		default:
			putBF16(w, float32(1.7*u/math.Sqrt(float64(fanIn))))
		}
	}
}

func putF32(w *bufio.Writer, x float32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
	w.Write(b[:])
}

func putBF16(w *bufio.Writer, x float32) {
	var b [2]byte
	binary.LittleEndian.PutUint16(b[:], uint16(math.Float32bits(x)>>16))
	w.Write(b[:])
}

// hash is splitmix64: a stateless source of seeded noise.
func hash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
