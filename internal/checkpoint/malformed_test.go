package checkpoint

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// A broken checkpoint: the files, and what must be said about them.
type broken struct {
	name  string
	files map[string][]byte // a name that ends in "/" is a directory

	field string // of an *UnsupportedError; or
	file  string // of a *CheckpointError
	// tensor is the CheckpointError's tensor.
	tensor string
	// late names the tensor whose values are at fault, which Open does not read.
	late string
}

// TestMalformed opens every broken checkpoint through both doors: each is
// refused with a typed error that names the place, and leaves no memory and no
// file behind.
func TestMalformed(t *testing.T) {
	var all []broken
	all = append(all, brokenConfigs(t)...)
	all = append(all, brokenText(t)...)
	all = append(all, brokenHeaders(t)...)
	all = append(all, brokenTensors(t)...)
	all = append(all, brokenIndexes(t)...)
	all = append(all, brokenScales(t)...)
	if len(all) < 100 {
		t.Fatalf("%d broken checkpoints; want at least 100", len(all))
	}
	t.Logf("%d broken checkpoints", len(all))

	names, sums := make(map[string]bool), make(map[[32]byte]string)
	for _, b := range all {
		sum := filesSum(b.files)
		if other, dup := sums[sum]; dup || names[b.name] {
			t.Fatalf("%q is there twice (%q)", b.name, other)
		}
		names[b.name], sums[sum] = true, b.name
	}
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			dir := writeFiles(t, b.files)
			t.Run("dir", func(t *testing.T) { b.check(t, func() (*Checkpoint, error) { return Open(dir) }) })
			t.Run("fs", func(t *testing.T) { b.check(t, func() (*Checkpoint, error) { return OpenFS(mapFS(b.files)) }) })
			t.Run("scan", func(t *testing.T) { b.checkScan(t, dir) })
		})
	}
}

// The unbroken files open, or the table above would prove nothing.
func TestMalformedBaseline(t *testing.T) {
	for _, files := range []map[string][]byte{
		baseline(t).files(t), shardedBaseline(t).files(t), newFixture(t, tinyGQA(), LayoutFP8).files(t),
	} {
		c, err := OpenFS(mapFS(files))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func filesSum(files map[string][]byte) [32]byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %d\n", name, len(files[name]))
		h.Write(files[name])
	}
	return [32]byte(h.Sum(nil))
}

func (b broken) check(t *testing.T, open func() (*Checkpoint, error)) {
	t.Helper()
	memory, handles := offheap.InUse(), openFiles(t)
	c, err := open()
	if b.late != "" {
		if err != nil {
			t.Fatalf("Open: %v; want the fault when the tensor is read", err)
		}
		_, err = c.Tensor(b.late)
		if cerr := c.Close(); cerr != nil {
			t.Fatal(cerr)
		}
	} else if c != nil {
		t.Error("Open returned a checkpoint beside its error")
	}
	b.checkError(t, err)
	if got := offheap.InUse(); got != memory {
		t.Errorf("%d bytes mapped; started at %d", got, memory)
	}
	if got := openFiles(t); got != handles {
		t.Errorf("%d open files; started at %d", got, handles)
	}
}

// checkScan: what Open refuses, Scan refuses or lists as not runnable.
func (b broken) checkScan(t *testing.T, dir string) {
	t.Helper()
	memory, handles := offheap.InUse(), openFiles(t)
	l, err := Scan(dir)
	if err == nil && b.late == "" && l.Checked() {
		t.Error("Scan found nothing wrong")
	}
	if err != nil {
		b.checkError(t, err)
	}
	if offheap.InUse() != memory || openFiles(t) != handles {
		t.Errorf("%d bytes mapped, %d open files; started at %d and %d", offheap.InUse(), openFiles(t), memory, handles)
	}
}

func (b broken) checkError(t *testing.T, err error) {
	t.Helper()
	if b.field != "" {
		var e *UnsupportedError
		if !errors.Is(err, ErrUnsupportedModel) || errors.Is(err, ErrCorruptCheckpoint) || !errors.As(err, &e) {
			t.Fatalf("%v; want ErrUnsupportedModel", err)
		}
		if e.Field != b.field || e.Value == "" || e.Supported == "" {
			t.Errorf("field %q, value %q, supported %q; want field %q", e.Field, e.Value, e.Supported, b.field)
		}
		return
	}
	var e *CheckpointError
	if !errors.Is(err, ErrCorruptCheckpoint) || errors.Is(err, ErrUnsupportedModel) || !errors.As(err, &e) {
		t.Fatalf("%v; want ErrCorruptCheckpoint", err)
	}
	if e.File != b.file || e.Tensor != b.tensor || e.Want == "" || e.Have == "" || e.Offset < -1 {
		t.Errorf("file %q, tensor %q, offset %d, want %q, have %q; want file %q, tensor %q", e.File, e.Tensor, e.Offset, e.Want, e.Have, b.file, b.tensor)
	}
}

func baseline(t testing.TB) *fixture { return newFixture(t, tinyDSA(), LayoutFP8) }

func shardedBaseline(t testing.TB) *fixture {
	f := baseline(t)
	f.shards = 3
	return f
}

// with returns a copy of a configuration with one value changed; the value del
// removes it.
func with(config map[string]any, key string, v any) map[string]any {
	c := maps.Clone(config)
	if c[key] = v; v == del {
		delete(c, key)
	}
	return c
}

type deletion struct{}

var del any = deletion{}

func quantised(q map[string]any) map[string]any { return with(tinyDSA(), "quantization_config", q) }

func group(weights map[string]any) map[string]any {
	return quantised(map[string]any{"quant_method": "compressed-tensors", "config_groups": map[string]any{"group_0": map[string]any{"weights": weights}}})
}

// brokenConfigs are configurations whose text is sound and whose values are not:
// refused before anybody looks for weights.
func brokenConfigs(t testing.TB) []broken {
	var out []broken
	add := func(name, field string, config map[string]any) {
		out = append(out, broken{name: "config " + name, field: field,
			files: map[string][]byte{configFile: mustJSON(t, config)}})
	}
	dsa := func(key string, v any, field string) {
		name := "absent"
		if v != del {
			name = string(mustJSON(t, v))
		}
		add(key+" "+name, field, with(tinyDSA(), key, v))
	}
	for _, key := range []string{
		"num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "moe_intermediate_size", "num_attention_heads",
		"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "n_routed_experts",
		"index_n_heads", "index_head_dim", "index_topk", "max_position_embeddings", "n_shared_experts",
	} {
		dsa(key, del, key)
		dsa(key, 0, key)
		dsa(key, -1, key)
		dsa(key, 1<<40, key)
	}
	for _, v := range []any{160.5, "160", true, []any{160}, map[string]any{}, nil} {
		dsa("hidden_size", v, "hidden_size")
	}
	for _, c := range []struct {
		key string
		v   any
	}{
		{"hidden_act", "gelu"}, {"hidden_act", 7}, {"tie_word_embeddings", true}, {"tie_word_embeddings", "no"},
		{"mlp_bias", true}, {"attention_bias", true}, {"sliding_window", 4096}, {"swiglu_limit", 10},
		{"scoring_func", "softmax"}, {"topk_method", "greedy"}, {"moe_router_dtype", "bfloat16"},
		{"n_group", 2}, {"topk_group", 2}, {"moe_layer_freq", 2}, {"num_experts", 5}, {"num_local_experts", 8},
		{"num_experts_per_tok", 0}, {"num_experts_per_tok", 5}, {"num_experts_per_tok", del}, {"norm_topk_prob", "yes"},
		{"routed_scaling_factor", 0}, {"routed_scaling_factor", -2.5}, {"routed_scaling_factor", del},
		{"routed_scaling_factor", json.Number("1e999")},
		{"first_k_dense_replace", 4}, {"first_k_dense_replace", -1}, {"first_k_dense_replace", del},
		{"mlp_layer_types", []any{"dense", "sparse"}}, {"mlp_layer_types", "dense"},
		{"rms_norm_eps", 0}, {"rms_norm_eps", -1e-5}, {"rms_norm_eps", json.Number("1e999")}, {"rms_norm_eps", "1e-5"}, {"rms_norm_eps", del},
		{"qk_rope_head_dim", 0}, {"qk_rope_head_dim", 7}, {"qk_head_dim", 33}, {"num_key_value_heads", 1},
		{"rope_interleave", false}, {"indexer_rope_interleave", false}, {"partial_rotary_factor", 0.5},
		{"rope_parameters", []any{}}, {"rope_theta", 10000}, {"rope_scaling", "yarn"},
		{"index_head_dim", 4}, {"indexer_types", []any{"full"}}, {"indexer_types", []any{"shared", "full", "full"}},
		{"layer_types", []any{"indexed_attention"}}, {"num_nextn_predict_layers", -1}, {"num_nextn_predict_layers", 1000},
		{"eos_token_id", 70}, {"eos_token_id", []any{60, -1}}, {"eos_token_id", "</s>"}, {"pad_token_id", 70},
		{"model_type", "llama"}, {"model_type", del}, {"model_type", 5}, {"quantization_config", []any{}},
	} {
		dsa(c.key, c.v, c.key)
	}
	dsa("mlp_layer_types", []any{"dense", "sparse", "mixed"}, "mlp_layer_types[2]")
	dsa("indexer_types", []any{"full", "half", "full"}, "indexer_types[1]")
	dsa("indexer_types", []any{"full", 1, "full"}, "indexer_types[1]")
	dsa("layer_types", []any{"indexed_attention", "sliding_attention", "indexed_attention"}, "layer_types[1]")
	dsa("rope_parameters", map[string]any{"rope_type": "default"}, "rope_theta")
	dsa("rope_parameters", map[string]any{"rope_theta": -1}, "rope_parameters.rope_theta")
	dsa("rope_parameters", map[string]any{"rope_theta": 8e6, "rope_type": "yarn", "factor": 4}, "rope_parameters.rope_type")
	dsa("rope_parameters", map[string]any{"rope_theta": 8e6, "factor": 4}, "rope_parameters.factor")
	dsa("rope_scaling", map[string]any{"type": "linear", "factor": 2}, "rope_scaling.type")
	dsa("rope_scaling", map[string]any{"rope_type": 3}, "rope_scaling.rope_type")

	noTypes := with(tinyDSA(), "indexer_types", del)
	add("pattern of a strange letter", "index_topk_pattern", with(noTypes, "index_topk_pattern", "FSX"))
	add("pattern too short", "index_topk_pattern", with(noTypes, "index_topk_pattern", "FS"))
	add("pattern that starts shared", "index_topk_pattern", with(noTypes, "index_topk_pattern", "SFF"))
	add("frequency 0", "index_topk_freq", with(noTypes, "index_topk_freq", 0))
	add("offset -1", "index_skip_topk_offset", with(noTypes, "index_skip_topk_offset", -1))
	add("offset that starts shared", "index_skip_topk_offset", with(with(noTypes, "index_topk_freq", 4), "index_skip_topk_offset", 0))
	add("millions of weights", "num_hidden_layers and n_routed_experts",
		with(with(with(noTypes, "num_hidden_layers", 1000), "n_routed_experts", 4096), "first_k_dense_replace", 1))

	q := "quantization_config."
	add("awq", q+"quant_method", quantised(map[string]any{"quant_method": "awq", "bits": 4}))
	add("no quant_method", q+"quant_method", quantised(map[string]any{"bits": 4}))
	add("e5m2", q+"fmt", quantised(map[string]any{"quant_method": "fp8", "fmt": "e5m2"}))
	add("static activations", q+"activation_scheme", quantised(map[string]any{"quant_method": "fp8", "activation_scheme": "static"}))
	add("blocks of 64", q+"weight_block_size", quantised(map[string]any{"quant_method": "fp8", "weight_block_size": []any{64, 64}}))
	add("blocks of words", q+"weight_block_size", quantised(map[string]any{"quant_method": "fp8", "weight_block_size": "128"}))
	w := q + "config_groups.group_0.weights."
	add("int4 group", w+"num_bits", group(map[string]any{"num_bits": 4, "type": "float"}))
	add("int8 group", w+"type", group(map[string]any{"num_bits": 8, "type": "int"}))
	add("asymmetric group", w+"symmetric", group(map[string]any{"num_bits": 8, "symmetric": false}))
	add("tensor-wise group", w+"strategy", group(map[string]any{"strategy": "tensor"}))
	add("block structure", w+"block_structure", group(map[string]any{"strategy": "block", "block_structure": []any{1, 128}}))
	add("kv scheme", q+"kv_cache_scheme", quantised(map[string]any{"quant_method": "compressed-tensors", "kv_cache_scheme": map[string]any{"num_bits": 8}}))
	add("packed format", q+"format", quantised(map[string]any{"quant_method": "compressed-tensors", "format": "pack-quantized"}))

	gqa := func(name, field, key string, v any) { add("gqa "+name, field, with(tinyGQA(), key, v)) }
	gqa("kv heads that do not divide", "num_key_value_heads", "num_key_value_heads", 3)
	gqa("interleaved rope", "rope_interleave", "rope_interleave", true)
	gqa("one rotated dim", "partial_rotary_factor", "partial_rotary_factor", 0.1)
	gqa("qk norm of a string", "use_qk_norm", "use_qk_norm", "yes")
	gqa("layer type", "layer_types[0]", "layer_types", []any{"sliding_attention", "full_attention"})
	add("gqa no head_dim and none to derive", "head_dim", with(with(tinyGQA(), "head_dim", del), "hidden_size", 97))
	add("lite no q_lora_rank", "q_lora_rank", with(tinyLite(), "q_lora_rank", nil))

	next := func(name, field, key string, v any) { add("next "+name, field, with(tinyNext(), key, v)) }
	next("that runs nowhere", "model_type", "unknown", 1)
	next("rotated dims", "qk_rope_head_dim", "qk_rope_head_dim", 8)
	next("no layer types", "layer_types", "layer_types", del)
	next("strange layer", "layer_types[0]", "layer_types", []any{"rnn", "linear_attention", "linear_attention", "full_attention"})
	next("pool that does not divide", "index_kpool", "index_kpool", 3)
	next("no pool", "index_kpool", "index_kpool", del)
	next("no streams", "hc_mult", "hc_mult", 0)
	next("no clamp", "swiglu_limit", "swiglu_limit", del)
	next("no linear attention", "linear_attn_config", "linear_attn_config", del)
	next("no heads", "linear_attn_config.num_heads", "linear_attn_config", map[string]any{"head_dim": 16, "short_conv_kernel_size": 4})
	next("text of a word", "text_config", "text_config", "x")
	next("vision without depth", "vision_config.depth", "vision_config", map[string]any{})

	gen := func(name, field string, g map[string]any) {
		f := baseline(t)
		f.generation = g
		out = append(out, broken{name: "generation " + name, field: generationFile + ": " + field, files: f.files(t)})
	}
	gen("eos out of range", "eos_token_id", map[string]any{"eos_token_id": []any{60, 70}})
	gen("temperature", "temperature", map[string]any{"temperature": -1})
	gen("top_p", "top_p", map[string]any{"top_p": 1.5})
	gen("top_k", "top_k", map[string]any{"top_k": -1})
	gen("do_sample", "do_sample", map[string]any{"do_sample": "yes"})
	return out
}
