package checkpoint

import "fmt"

// parseNext reads glm5_next: fields in text_config and vision_config, or all of
// the text model's at the top level in a text-only file.
func parseNext(f fields, c *Config) {
	text, ok := f.object("text_config")
	if !ok {
		text = f
	}
	c.Next = &Next{}
	parseText(text, c)
	n := c.Next

	n.HCMult = text.int("hc_mult", 1, 64)
	n.KPool = text.int("index_kpool", 1, 1024)
	n.SwiGLULimit = text.float("swiglu_limit", 0, 1e6)
	if c.Index.TopK%n.KPool != 0 {
		text.fail("index_kpool", n.KPool, fmt.Sprintf("a divisor of index_topk, %d", c.Index.TopK))
	}
	kinds := map[string]bool{
		"linear_attention": true, "full_attention": false, "deepseek_sparse_attention": false, "indexed_attention": false,
	}
	linear, ok := text.words("layer_types", c.Layers, kinds, "linear_attention, full_attention or deepseek_sparse_attention")
	if !ok {
		text.fail("layer_types", absent{}, "a list, one per layer")
		linear = make([]bool, c.Layers)
	}
	n.Linear = linear
	for i, l := range linear {
		if l {
			c.Index.Full[i] = false
		}
	}
	la, ok := text.object("linear_attn_config")
	if !ok {
		text.fail("linear_attn_config", absent{}, "an object")
	} else {
		n.LinearHeads = la.int("num_heads", 1, maxHeads)
		n.LinearHeadDim = la.int("head_dim", 1, maxHeadDim)
		n.ConvKernel = la.int("short_conv_kernel_size", 1, 64)
	}
	if v, ok := f.object("vision_config"); ok {
		n.Vision = parseVision(v, c)
	}
	if !f.has("quantization_config") {
		parseQuant(text, c)
	}
}

func parseVision(f fields, c *Config) *Vision {
	v := &Vision{
		Depth:                  f.int("depth", 1, maxLayers),
		Hidden:                 f.int("hidden_size", 1, maxWidth),
		Intermediate:           f.int("intermediate_size", 1, maxWidth),
		Heads:                  f.int("num_heads", 1, maxHeads),
		Channels:               f.optInt("in_channels", 3, 1, 64),
		Patch:                  f.int("patch_size", 1, 256),
		TemporalPatch:          f.int("temporal_patch_size", 1, 64),
		Merge:                  f.int("spatial_merge_size", 1, 64),
		OutHidden:              f.int("out_hidden_size", 1, maxWidth),
		ProjectionIntermediate: f.int("projection_intermediate_size", 1, maxWidth),
	}
	f.wantBool("attention_bias", true)
	if v.Hidden%v.Heads != 0 {
		f.fail("num_heads", v.Heads, fmt.Sprintf("a divisor of hidden_size, %d", v.Hidden))
	}
	if v.OutHidden != c.Hidden {
		f.fail("out_hidden_size", v.OutHidden, fmt.Sprintf("the text model's hidden_size, %d", c.Hidden))
	}
	return v
}
