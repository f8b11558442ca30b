package checkpoint

import (
	"fmt"
	"math"
)

// The names of the two configuration files.
const (
	configFile     = "config.json"
	generationFile = "generation_config.json"
)

// families lists the model types for an error message.
var families = []Family{GLMMoeDSA, GLM4MoeLite, GLM4Moe, GLM5Next}

// ParseConfig reads the text of config.json. Unknown fields are ignored. A
// broken text is a *CheckpointError, a known field with a value that no model
// can have an *UnsupportedError. A known field with a value that is sound but
// cannot be run is reported by [Config.Runnable].
func ParseConfig(data []byte) (*Config, error) {
	m, e := parseObject(data)
	if e != nil {
		return nil, e.in(configFile, 0)
	}
	f := fields{m: m, faults: &faults{}}
	c := parseConfig(f)
	if f.faults.err != nil {
		return nil, f.faults.err
	}
	if n := weightCount(c); n > maxTensors {
		return nil, &UnsupportedError{
			Field: "num_hidden_layers and n_routed_experts", Value: fmt.Sprintf("%d weights together", n),
			Supported: fmt.Sprintf("at most %d", maxTensors),
		}
	}
	c.refusal = f.faults.refusal
	return c, nil
}

func parseConfig(f fields) *Config {
	c := &Config{LatentEps: DefaultLatentEps}
	name, _ := f.m["model_type"].(string)
	switch c.Family = Family(name); c.Family {
	case GLMMoeDSA, GLM4MoeLite, GLM4Moe:
		parseText(f, c)
	case GLM5Next:
		f.refuse("model_type", name, fmt.Sprint(families[:3]))
		parseNext(f, c)
	default:
		v, ok := f.get("model_type")
		if !ok {
			v = absent{}
		}
		f.fail("model_type", v, fmt.Sprint(families))
	}
	parseQuant(f, c)
	return c
}

// parseText reads what the text models of all families share, then the parts
// that they do not.
func parseText(f fields, c *Config) {
	c.Layers = f.int("num_hidden_layers", 1, maxLayers)
	c.Hidden = f.int("hidden_size", 1, maxWidth)
	c.Vocab = f.int("vocab_size", 1, maxVocab)
	c.MaxPositions = f.int("max_position_embeddings", 1, maxPositions)
	c.MTPLayers = f.optInt("num_nextn_predict_layers", 0, 0, maxMTP)
	c.RMSEps = f.float("rms_norm_eps", 0, 0.1)
	c.EOS = f.ids("eos_token_id", c.Vocab)
	c.Pad = int32(f.optInt("pad_token_id", -1, -1, c.Vocab-1))

	f.wantString("hidden_act", "silu")
	f.wantBool("tie_word_embeddings", false)
	f.wantBool("mlp_bias", false)
	f.wantAbsent("sliding_window")

	parseExperts(f, c)
	if c.Family == GLM4Moe {
		parseGQA(f, c)
	} else {
		parseMLA(f, c)
	}
	if c.Family == GLMMoeDSA || c.Family == GLM5Next {
		parseIndex(f, c)
	}
	if c.Family != GLM5Next {
		f.wantAbsent("swiglu_limit")
		parseLayerTypes(f, c)
	}
}

// parseExperts reads the feed-forward blocks. The router is the sigmoid one with
// a correction bias; its group step exists only as the no-op of one group.
func parseExperts(f fields, c *Config) {
	c.DenseIntermediate = f.int("intermediate_size", 1, maxWidth)
	c.MoEIntermediate = f.int("moe_intermediate_size", 1, maxWidth)
	c.Experts = f.int("n_routed_experts", 1, maxExperts)
	c.TopK = f.int("num_experts_per_tok", 1, c.Experts)
	c.SharedExperts = f.int("n_shared_experts", 1, 64)
	c.NormTopKProb = f.optBool("norm_topk_prob", true)
	c.RoutedScale = f.float("routed_scaling_factor", 0, 1e6)

	f.wantString("scoring_func", "sigmoid")
	f.wantString("topk_method", "noaux_tc")
	f.wantString("moe_router_dtype", "float32")
	f.wantInt("n_group", 1)
	f.wantInt("topk_group", 1)
	f.wantInt("moe_layer_freq", 1)
	for _, alias := range []string{"num_experts", "num_local_experts"} {
		if n := f.optInt(alias, c.Experts, 1, maxExperts); n != c.Experts {
			f.fail(alias, n, fmt.Sprintf("n_routed_experts, %d", c.Experts))
		}
	}

	sparse, ok := f.words("mlp_layer_types", c.Layers, map[string]bool{"dense": false, "sparse": true}, "dense or sparse")
	if !ok {
		dense := f.int("first_k_dense_replace", 0, c.Layers)
		sparse = make([]bool, c.Layers)
		for i := dense; i < c.Layers; i++ {
			sparse[i] = true
		}
	}
	c.Sparse = sparse
}

func parseMLA(f fields, c *Config) {
	c.Heads = f.int("num_attention_heads", 1, maxHeads)
	c.QLoraRank = f.int("q_lora_rank", 1, maxWidth)
	c.KVLoraRank = f.int("kv_lora_rank", 1, maxWidth)
	c.QKNope = f.int("qk_nope_head_dim", 1, maxHeadDim)
	c.QKRope = f.int("qk_rope_head_dim", 0, maxHeadDim)
	c.VDim = f.int("v_head_dim", 1, maxHeadDim)

	f.wantBool("attention_bias", false)
	if n := f.optInt("num_key_value_heads", c.Heads, 1, maxHeads); n != c.Heads {
		f.refuse("num_key_value_heads", n, fmt.Sprintf("num_attention_heads, %d", c.Heads))
	}
	next := c.Family == GLM5Next
	switch {
	case next && c.QKRope != 0:
		f.fail("qk_rope_head_dim", c.QKRope, "0")
	case !next && (c.QKRope == 0 || c.QKRope%2 != 0):
		f.fail("qk_rope_head_dim", c.QKRope, "an even number above 0")
	}
	if n := f.optInt("qk_head_dim", c.QKNope+c.QKRope, 1, 2*maxHeadDim); n != c.QKNope+c.QKRope {
		f.fail("qk_head_dim", n, fmt.Sprintf("qk_nope_head_dim + qk_rope_head_dim, %d", c.QKNope+c.QKRope))
	}
	if next {
		return
	}
	f.wantBool("rope_interleave", true)
	parseRope(f, c, 1)
	if c.Rope.Dims != c.QKRope {
		f.refuse("partial_rotary_factor", float64(c.Rope.Dims)/float64(c.QKRope), "1")
		c.Rope.Dims = c.QKRope
	}
	c.Rope.Interleaved = true
}

func parseGQA(f fields, c *Config) {
	c.Heads = f.int("num_attention_heads", 1, maxHeads)
	c.KVHeads = f.int("num_key_value_heads", 1, maxHeads)
	if c.Heads%c.KVHeads != 0 {
		f.fail("num_key_value_heads", c.KVHeads, fmt.Sprintf("a divisor of num_attention_heads, %d", c.Heads))
	}
	if f.has("head_dim") || c.Hidden%c.Heads != 0 {
		c.HeadDim = f.int("head_dim", 1, maxHeadDim)
	} else {
		c.HeadDim = c.Hidden / c.Heads
	}
	c.AttentionBias = f.optBool("attention_bias", false)
	c.UseQKNorm = f.optBool("use_qk_norm", false)
	f.wantBool("rope_interleave", false)
	parseRope(f, c, 0.5)
}

// parseRope reads the rotary embedding from the top level or from
// rope_parameters. Both may be there, as long as they agree: a reader that knew
// one place only once fell back to a wrong theta in silence.
func parseRope(f fields, c *Config, partial float64) {
	const maxTheta = 1e12
	nested, hasNested := f.object("rope_parameters")
	read := func(name string, lo, hi float64) (float64, bool) {
		in := f
		if hasNested && nested.has(name) {
			in = nested
		}
		if !in.has(name) {
			return 0, false
		}
		x := in.float(name, lo, hi)
		if hasNested && nested.has(name) && f.has(name) && f.float(name, lo, hi) != x {
			f.fail(name, f.m[name], fmt.Sprintf("the same as rope_parameters.%s, %g", name, x))
		}
		return x, true
	}
	theta, ok := read("rope_theta", 0, maxTheta)
	if !ok {
		f.fail("rope_theta", absent{}, "a number at the top level or in rope_parameters")
	}
	c.Rope.Theta = theta
	if x, ok := read("partial_rotary_factor", 0, 1); ok {
		partial = x
	}
	head := c.QKRope
	if c.Family == GLM4Moe {
		head = c.HeadDim
	}
	c.Rope.Dims = int(math.Floor(float64(head) * partial))
	if c.Rope.Dims < 2 || c.Rope.Dims%2 != 0 {
		f.fail("partial_rotary_factor", partial, fmt.Sprintf("an even number of rotated dims of a head's %d", head))
	}
	if hasNested {
		wantDefaultRope(nested)
	}
	if scaling, ok := f.object("rope_scaling"); ok {
		wantDefaultRope(scaling)
	}
}

// wantDefaultRope refuses every kind of frequency scaling.
func wantDefaultRope(f fields) {
	f.wantString("rope_type", "default")
	f.wantString("type", "default")
	for _, name := range []string{"factor", "attention_factor", "mscale", "mscale_all_dim"} {
		if v, ok := f.get(name); ok {
			if x, isNum := toFloat(v); !isNum || x != 1 {
				f.refuse(name, v, "1 or absent")
			}
		}
	}
}

// parseIndex reads the indexer and its schedule: indexer_types if given, else
// index_topk_pattern, else layer i is full iff
// max(i - offset + 1, 0) mod freq == 0.
func parseIndex(f fields, c *Config) {
	c.Index.Heads = f.int("index_n_heads", 1, maxHeads)
	c.Index.HeadDim = f.int("index_head_dim", 1, maxHeadDim)
	c.Index.TopK = f.int("index_topk", 1, maxPositions)
	c.Index.ShareMTP = f.optBool("index_share_for_mtp_iteration", false)
	f.wantBool("indexer_rope_interleave", true)
	if c.Index.HeadDim < c.QKRope {
		f.fail("index_head_dim", c.Index.HeadDim, fmt.Sprintf("at least qk_rope_head_dim, %d", c.QKRope))
	}

	full, source := parseSchedule(f, c.Layers)
	if !full[0] {
		f.fail(source, "shared for layer 0", "a full first layer: there is nothing before it to share")
	}
	c.Index.Full = full
}

func parseSchedule(f fields, layers int) (full []bool, source string) {
	words := map[string]bool{"full": true, "shared": false}
	if full, ok := f.words("indexer_types", layers, words, "full or shared"); ok {
		return full, "indexer_types"
	}
	if v, ok := f.get("index_topk_pattern"); ok {
		s, isString := v.(string)
		if !isString {
			full, _ := f.words("index_topk_pattern", layers, words, "full or shared")
			return full, "index_topk_pattern"
		}
		full = make([]bool, layers)
		if len(s) != layers {
			f.fail("index_topk_pattern", s, fmt.Sprintf("%d letters F or S, one per layer", layers))
			return full, "index_topk_pattern"
		}
		for i := range s {
			if full[i] = s[i] == 'F'; s[i] != 'F' && s[i] != 'S' {
				f.fail("index_topk_pattern", s, "letters F (full) and S (shared)")
			}
		}
		return full, "index_topk_pattern"
	}
	freq := f.optInt("index_topk_freq", 1, 1, maxLayers)
	offset := f.optInt("index_skip_topk_offset", 2, 0, maxLayers)
	full = make([]bool, layers)
	for i := range full {
		full[i] = max(i-offset+1, 0)%freq == 0
	}
	return full, "index_skip_topk_offset"
}

// parseLayerTypes refuses a layer that is not the family's one kind.
func parseLayerTypes(f fields, c *Config) {
	kinds, supported := map[string]bool{"full_attention": true}, "full_attention"
	if c.Family == GLMMoeDSA {
		kinds = map[string]bool{"deepseek_sparse_attention": true, "indexed_attention": true}
		supported = "deepseek_sparse_attention or indexed_attention"
	}
	f.words("layer_types", c.Layers, kinds, supported)
}
