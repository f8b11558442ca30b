package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// letters writes a schedule as F and S.
func letters(full []bool) string {
	var b strings.Builder
	for _, f := range full {
		b.WriteByte("SF"[map[bool]int{false: 0, true: 1}[f]])
	}
	return b.String()
}

func TestPublishedConfigs(t *testing.T) {
	flash := []int32{154820, 154827, 154829}
	sparse := func(layers, dense int) []bool {
		s := make([]bool, layers)
		for i := dense; i < layers; i++ {
			s[i] = true
		}
		return s
	}
	dsa := Config{
		Family: GLMMoeDSA, Layers: 78, Hidden: 6144, Vocab: 154880, MaxPositions: 1 << 20, MTPLayers: 1, RMSEps: 1e-5, LatentEps: 1e-5,
		Rope: Rope{Theta: 8e6, Dims: 64, Interleaved: true}, Heads: 64, QLoraRank: 2048, KVLoraRank: 512, QKNope: 192, QKRope: 64, VDim: 256,
		DenseIntermediate: 12288, MoEIntermediate: 2048, Experts: 256, TopK: 8, SharedExperts: 1, Sparse: sparse(78, 3), NormTopKProb: true,
		RoutedScale: 2.5, EOS: flash, Pad: 154820, Index: Index{Heads: 32, HeadDim: 128, TopK: 2048, ShareMTP: true},
	}
	for i := range 78 {
		dsa.Index.Full = append(dsa.Index.Full, i < 3 || i%4 == 2)
	}
	five := dsa
	five.MaxPositions, five.Rope.Theta, five.Index.ShareMTP = 202752, 1e6, false
	five.Index.Full = slices.Repeat([]bool{true}, 78)
	gqa := Config{
		Family: GLM4Moe, Layers: 92, Hidden: 5120, Vocab: 151552, MaxPositions: 131072, MTPLayers: 1, RMSEps: 1e-5, LatentEps: 1e-5,
		Rope: Rope{Theta: 1e6, Dims: 64}, Heads: 96, KVHeads: 8, HeadDim: 128, AttentionBias: true, UseQKNorm: true,
		DenseIntermediate: 12288, MoEIntermediate: 1536, Experts: 160, TopK: 8, SharedExperts: 1, Sparse: sparse(92, 3), NormTopKProb: true,
		RoutedScale: 2.5, EOS: []int32{151329, 151336, 151338}, Pad: 151329,
	}
	air := gqa
	air.Layers, air.Hidden, air.UseQKNorm, air.DenseIntermediate, air.MoEIntermediate = 46, 4096, false, 10944, 1408
	air.Experts, air.RoutedScale, air.Sparse = 128, 1, sparse(46, 1)
	lite := Config{
		Family: GLM4MoeLite, Layers: 47, Hidden: 2048, Vocab: 154880, MaxPositions: 202752, MTPLayers: 1, RMSEps: 1e-5, LatentEps: 1e-5,
		Rope: Rope{Theta: 1e6, Dims: 64, Interleaved: true}, Heads: 20, QLoraRank: 768, KVLoraRank: 512, QKNope: 192, QKRope: 64, VDim: 256,
		DenseIntermediate: 10240, MoEIntermediate: 1536, Experts: 64, TopK: 4, SharedExperts: 1, Sparse: sparse(47, 1), NormTopKProb: true,
		RoutedScale: 1.8, EOS: flash, Pad: 154820,
	}
	for name, want := range map[string]Config{"glm-5": five, "glm-5.2": dsa, "glm-4.5": gqa, "glm-4.5-air": air, "glm-4.7-flash": lite} {
		got := published(t, name)
		if diff := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := got.Runnable(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if q := published(t, "glm-5.2-fp8").Quant; q.Method != "fp8" || q.Scale != ScaleBlock128 {
		t.Errorf("GLM-5.2-FP8: %+v", q)
	}
}

func TestNextConfig(t *testing.T) {
	c := published(t, "glm-5.3-flash")
	var e *UnsupportedError
	if err := c.Runnable(); !errors.Is(err, ErrUnsupportedModel) || !errors.As(err, &e) || e.Field != "model_type" {
		t.Errorf("Runnable: %v; want model_type refused", err)
	}
	n := c.Next
	if n.HCMult != 4 || n.KPool != 4 || n.SwiGLULimit != 10 || n.LinearHeads != 64 || n.LinearHeadDim != 128 || n.ConvKernel != 4 || n.Vision.Depth != 24 {
		t.Errorf("%+v", n)
	}
	var mla []int
	for i := range c.Layers {
		if !c.LinearLayer(i) {
			mla = append(mla, i)
		}
		if c.IndexLayer(i) == c.LinearLayer(i) {
			t.Errorf("layer %d: indexer %t, linear %t", i, c.IndexLayer(i), c.LinearLayer(i))
		}
	}
	if len(mla) != 11 || mla[0] != 3 || mla[10] != 43 {
		t.Errorf("MLA layers %v; want 3, 7, ..., 43", mla)
	}
	if c.Rope.Dims != 0 || c.QKRope != 0 {
		t.Errorf("rotates %d dims; want none", c.Rope.Dims)
	}
}

// The three ways to write a schedule agree.
func TestIndexSchedule(t *testing.T) {
	base := with(tinyDSA(), "indexer_types", del)
	base["num_hidden_layers"] = 12
	parse := func(m map[string]any) *Config {
		t.Helper()
		c, err := ParseConfig(mustJSON(t, m))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const want = "FFFSSSFSSSFS"
	var types []any
	for _, l := range want {
		types = append(types, map[rune]string{'F': "full", 'S': "shared"}[l])
	}
	schedule := map[string]any{"index_topk_freq": 4, "index_skip_topk_offset": 3}
	for key, v := range map[string]any{"indexer_types": types, "index_topk_pattern": want} {
		if got := letters(parse(with(base, key, v)).Index.Full); got != want {
			t.Errorf("%s: %s; want %s", key, got, want)
		}
	}
	for k, v := range schedule {
		base[k] = v
	}
	base["index_topk_pattern"] = nil
	if got := letters(parse(base).Index.Full); got != want {
		t.Errorf("frequency and offset: %s; want %s", got, want)
	}
	if got := letters(parse(with(base, "index_topk_freq", del)).Index.Full); got != "FFFFFFFFFFFF" {
		t.Errorf("no frequency: %s; want all full", got)
	}
	// A list overrides a pattern, a pattern the frequency.
	base["index_topk_pattern"] = "FSFSFSFSFSFS"
	if got := letters(parse(base).Index.Full); got != "FSFSFSFSFSFS" {
		t.Errorf("pattern beside a frequency: %s", got)
	}
	if got := letters(parse(with(base, "indexer_types", types)).Index.Full); got != want {
		t.Errorf("types beside a pattern: %s; want %s", got, want)
	}
	c := parse(base)
	if !c.IndexLayer(12) || !c.SparseLayer(12) || c.IndexLayer(1) || c.SparseLayer(0) {
		t.Error("MTP layers run an indexer and experts; layer 1 shares, layer 0 is dense")
	}
}

// Theta may be nested, flat, or both if they agree.
func TestRopePlaces(t *testing.T) {
	flat := with(with(tinyDSA(), "rope_parameters", del), "rope_theta", 5e5)
	both := with(tinyDSA(), "rope_theta", 8e6)
	for name, m := range map[string]struct {
		config map[string]any
		want   float64
	}{"nested": {tinyDSA(), 8e6}, "flat": {flat, 5e5}, "both": {both, 8e6},
		"flat with default scaling": {with(flat, "rope_scaling", map[string]any{"rope_type": "default"}), 5e5}} {
		c, err := ParseConfig(mustJSON(t, m.config))
		if err != nil || c.Rope != (Rope{Theta: m.want, Dims: 8, Interleaved: true}) {
			t.Errorf("%s: %v, %+v; want theta %g over 8 dims, interleaved", name, err, c, m.want)
		}
	}
	nested := with(with(tinyGQA(), "partial_rotary_factor", del), "rope_parameters", map[string]any{"rope_theta": 1e6, "partial_rotary_factor": 0.25})
	nested = with(nested, "rope_theta", del)
	c, err := ParseConfig(mustJSON(t, nested))
	if err != nil || c.Rope != (Rope{Theta: 1e6, Dims: 4}) {
		t.Errorf("nested factor: %v, %+v; want 4 of 16 dims, half-split", err, c)
	}
	c, err = ParseConfig(mustJSON(t, with(tinyGQA(), "partial_rotary_factor", del)))
	if err != nil || c.Rope.Dims != 8 {
		t.Errorf("no factor: %v, %+v; want half of 16 dims", err, c)
	}
}

func TestHeadDim(t *testing.T) {
	c, err := ParseConfig(mustJSON(t, with(tinyGQA(), "head_dim", del)))
	if err != nil || c.HeadDim != 24 {
		t.Errorf("head_dim %d, %v; want hidden_size / num_attention_heads, 24", c.HeadDim, err)
	}
	for _, v := range []any{192, "nonsense", nil} {
		c, err := ParseConfig(mustJSON(t, with(tinyDSA(), "head_dim", v)))
		if err != nil || c.HeadDim != 0 {
			t.Errorf("MLA with head_dim %v: %v, %d; want it ignored", v, err, c.HeadDim)
		}
	}
}

// The first field that cannot be run is the one named, and a fault outranks it.
func TestRefusalOrder(t *testing.T) {
	m := with(with(tinyDSA(), "hidden_act", "gelu"), "scoring_func", "softmax")
	c, err := ParseConfig(mustJSON(t, m))
	if err != nil {
		t.Fatalf("%v; want a configuration that says why it does not run", err)
	}
	if want := `unsupported model: hidden_act is "gelu"; supported: silu`; fmt.Sprint(c.Runnable()) != want {
		t.Errorf("%v; want %s", c.Runnable(), want)
	}
	var e *UnsupportedError
	if _, err := ParseConfig(mustJSON(t, with(m, "hidden_size", -1))); !errors.As(err, &e) || e.Field != "hidden_size" {
		t.Errorf("%v; want hidden_size", err)
	}
}

// The messages carry everything that the fields do.
func TestErrorText(t *testing.T) {
	e := &CheckpointError{File: "a.safetensors", Tensor: "x", Offset: 12, Want: "F32", Have: "BF16", Err: errDisk}
	if want := `corrupt checkpoint: a.safetensors: tensor "x" at byte 12: want F32, have BF16: disk on fire`; e.Error() != want {
		t.Errorf("%s; want %s", e, want)
	}
	e = &CheckpointError{File: "config.json", Offset: -1, Want: "a readable file", Have: "absent"}
	if want := "corrupt checkpoint: config.json: want a readable file, have absent"; e.Error() != want {
		t.Errorf("%s; want %s", e, want)
	}
	if !errors.Is(e, ErrCorruptCheckpoint) || errors.Is(e, errDisk) {
		t.Error("a cause from nowhere")
	}
	long := &UnsupportedError{}
	_, err := ParseConfig(mustJSON(t, with(tinyDSA(), "hidden_act", []any{strings.Repeat("é", 4000)})))
	if !errors.As(err, &long) || len(long.Value) > 64 || !strings.HasSuffix(long.Value, "...") {
		t.Errorf("a value of 8 kB is shown as %d bytes", len(long.Value))
	}
}

// quantization_config declares a layout; it does not decide one.
func TestDeclaredLayout(t *testing.T) {
	channel := map[string]any{"quant_method": "compressed-tensors", "format": "float-quantized", "kv_cache_scheme": nil,
		"config_groups": map[string]any{"group_0": map[string]any{"output_activations": nil,
			"input_activations": map[string]any{"dynamic": true, "num_bits": 8},
			"weights":           map[string]any{"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true, "block_structure": nil}}}}
	block := map[string]any{"quant_method": "compressed-tensors", "config_groups": map[string]any{"g": map[string]any{
		"weights": map[string]any{"num_bits": 8, "type": "float", "strategy": "block", "block_structure": []any{128, 128}}}}}
	for name, c := range map[string]struct {
		quant any
		scale ScaleKind
		want  Layout
	}{
		"none":    {nil, ScaleNone, LayoutBF16},
		"fp8":     {map[string]any{"quant_method": "fp8"}, ScaleBlock128, LayoutFP8},
		"channel": {channel, ScaleChannel, LayoutFP8},
		"block":   {block, ScaleBlock128, LayoutFP8},
	} {
		got, err := ParseConfig(mustJSON(t, with(tinyDSA(), "quantization_config", c.quant)))
		if err != nil || got.Runnable() != nil || got.Quant.Scale != c.scale || got.Layout() != c.want {
			t.Errorf("%s: %v, %+v; want scale %s", name, err, got, c.scale)
		}
	}
	// Declared as FP8, stored in BF16: the tensors decide.
	f := newFixture(t, with(tinyDSA(), "quantization_config", map[string]any{"quant_method": "fp8"}), LayoutBF16)
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		x, err := c.Tensor("model.layers.0.self_attn.o_proj.weight")
		if err != nil || x.DType != BF16 || x.Scale.Kind.String() != "none" {
			t.Errorf("%v, %s, scale %s; want BF16 without", err, x.DType, x.Scale.Kind)
		}
	})
}
