package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A fixture is a small valid checkpoint in parts, so that a test can break one
// of them before the files are made.
type fixture struct {
	config     map[string]any
	generation map[string]any // nil: no file
	tensors    []part
	shards     int // 0: a single file
}

// A part is one tensor as it will be written.
type part struct {
	name  string
	dtype string
	shape []int
	data  []byte
}

// tinyDSA is a GLM-5.2 in small: three layers, dense, sparse, sparse; indexers
// on the first and third; sizes off every multiple of 128.
func tinyDSA() map[string]any {
	return map[string]any{
		"model_type": "glm_moe_dsa", "num_hidden_layers": 3, "hidden_size": 160, "vocab_size": 70,
		"intermediate_size": 144, "moe_intermediate_size": 40, "num_attention_heads": 2, "num_key_value_heads": 2,
		"q_lora_rank": 48, "kv_lora_rank": 136, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 16,
		"head_dim": 999, "qk_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
		"n_group": 1, "topk_group": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "norm_topk_prob": true,
		"routed_scaling_factor": 2.5, "first_k_dense_replace": 1, "moe_layer_freq": 1, "rms_norm_eps": 1e-5,
		"rope_parameters": map[string]any{"rope_theta": 8e6, "rope_type": "default"}, "rope_interleave": true,
		"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8, "indexer_types": []any{"full", "shared", "full"},
		"indexer_rope_interleave": true, "num_nextn_predict_layers": 1, "max_position_embeddings": 512,
		"eos_token_id": []any{60, 61}, "pad_token_id": 60, "hidden_act": "silu", "attention_bias": false,
		"tie_word_embeddings": false, "a_field_nobody_knows": map[string]any{"x": []any{1, nil, "y"}},
	}
}

// tinyGQA is a GLM-4.5 in small.
func tinyGQA() map[string]any {
	return map[string]any{
		"model_type": "glm4_moe", "num_hidden_layers": 2, "hidden_size": 96, "vocab_size": 64,
		"intermediate_size": 144, "moe_intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2,
		"head_dim": 16, "use_qk_norm": true, "attention_bias": true, "partial_rotary_factor": 0.5, "rope_theta": 1000000,
		"n_routed_experts": 3, "num_experts_per_tok": 2, "n_shared_experts": 1, "routed_scaling_factor": 2.5,
		"first_k_dense_replace": 1, "rms_norm_eps": 1e-5, "num_nextn_predict_layers": 1, "max_position_embeddings": 512,
		"eos_token_id": 60, "pad_token_id": nil,
	}
}

// tinyLite is a GLM-4.7-Flash in small.
func tinyLite() map[string]any {
	m := tinyDSA()
	m["model_type"] = "glm4_moe_lite"
	for k := range m {
		if len(k) > 5 && k[:5] == "index" {
			delete(m, k)
		}
	}
	return m
}

func newFixture(t testing.TB, config map[string]any, l Layout) *fixture {
	t.Helper()
	c, err := ParseConfig(mustJSON(t, config))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{config: config}
	rng := rand.New(rand.NewPCG(1, 2))
	for e := range Inventory(c, l) {
		f.tensors = append(f.tensors, randomPart(rng, e.Name, e.DType, e.Shape))
	}
	return f
}

// randomPart makes finite values; those of 32 bits are positive, as scales are.
func randomPart(rng *rand.Rand, name string, d DType, shape []int) part {
	n := 1
	for _, s := range shape {
		n *= s
	}
	p := part{name: name, dtype: string(d), shape: shape, data: make([]byte, n*d.Size())}
	for i := range n {
		v := rng.Float32()
		switch d {
		case F32:
			binary.LittleEndian.PutUint32(p.data[4*i:], math.Float32bits(v+0.01))
		case BF16:
			binary.LittleEndian.PutUint16(p.data[2*i:], uint16(math.Float32bits(v-0.5)>>16))
		case F16:
			binary.LittleEndian.PutUint16(p.data[2*i:], uint16(rng.IntN(0x7c00)))
		case F8:
			p.data[i] = byte(rng.IntN(0x7f)) | byte(rng.IntN(2)<<7)
		}
	}
	return p
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tensor returns the part of that name for changing.
func (f *fixture) tensor(t testing.TB, name string) *part {
	t.Helper()
	for i := range f.tensors {
		if f.tensors[i].name == name {
			return &f.tensors[i]
		}
	}
	t.Fatalf("fixture has no tensor %q", name)
	return nil
}

func (f *fixture) drop(t testing.TB, name string) {
	t.Helper()
	f.tensor(t, name)
	f.tensors = slices.DeleteFunc(f.tensors, func(p part) bool { return p.name == name })
}

func (f *fixture) add(name, dtype string, shape ...int) {
	n := DType(dtype).Size()
	for _, d := range shape {
		n *= d
	}
	f.tensors = append(f.tensors, part{name: name, dtype: dtype, shape: shape, data: make([]byte, n)})
}

// files makes the checkpoint's files.
func (f *fixture) files(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{configFile: mustJSON(t, f.config)}
	if f.generation != nil {
		out[generationFile] = mustJSON(t, f.generation)
	}
	if f.shards == 0 {
		out[singleFile] = safetensors(t, f.tensors)
		return out
	}
	where := make(map[string]string)
	for i := range f.shards {
		name := shardName(i, f.shards)
		var mine []part
		for j := i; j < len(f.tensors); j += f.shards {
			mine = append(mine, f.tensors[j])
			where[f.tensors[j].name] = name
		}
		out[name] = safetensors(t, mine)
	}
	out[indexFile] = mustJSON(t, map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": where})
	return out
}

func shardName(i, n int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n) }

// safetensors writes a file, tensors in the order given.
func safetensors(t testing.TB, parts []part) []byte {
	t.Helper()
	var header, data bytes.Buffer
	header.WriteString(`{"__metadata__":{"format":"pt"}`)
	for _, p := range parts {
		begin := data.Len()
		data.Write(p.data)
		fmt.Fprintf(&header, `,%s:{"dtype":%s,"shape":%s,"data_offsets":[%d,%d]}`,
			mustJSON(t, p.name), mustJSON(t, p.dtype), mustJSON(t, p.shape), begin, data.Len())
	}
	header.WriteString("}")
	for header.Len()%8 != 0 {
		header.WriteByte(' ')
	}
	return rawSafetensors(header.Bytes(), data.Bytes())
}

func rawSafetensors(header, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

func writeFiles(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if strings.HasSuffix(name, "/") {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mapFS(files map[string][]byte) fstest.MapFS {
	m := make(fstest.MapFS)
	for name, data := range maps.All(files) {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			m[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			continue
		}
		m[name] = &fstest.MapFile{Data: data, Mode: 0o444}
	}
	return m
}
