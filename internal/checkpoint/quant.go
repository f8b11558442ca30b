package checkpoint

import "slices"

// parseQuant reads quantization_config. Its lists of excluded modules are not
// read: published ones name tensors that do not exist, and what a tensor is
// stored as is decided by the tensor.
func parseQuant(f fields, c *Config) {
	q, ok := f.object("quantization_config")
	if !ok {
		return
	}
	method, _ := q.m["quant_method"].(string)
	c.Quant.Method = method
	switch method {
	case "fp8":
		c.Quant.Scale = ScaleBlock128
		q.wantString("fmt", "e4m3")
		q.wantString("activation_scheme", "dynamic")
		wantBlock128(q, "weight_block_size")
	case "compressed-tensors":
		c.Quant.Scale = ScaleChannel
		q.wantString("format", "float-quantized", "naive-quantized")
		q.wantAbsent("kv_cache_scheme")
		groups, ok := q.object("config_groups")
		if !ok {
			return
		}
		// In order, so that of two faults the same one is always reported.
		for _, name := range sortedKeys(groups.m) {
			if g, ok := groups.object(name); ok {
				parseQuantGroup(g, c)
			}
		}
	default:
		v, ok := q.get("quant_method")
		if !ok {
			v = absent{}
		}
		q.refuse("quant_method", v, "fp8 or compressed-tensors")
	}
}

// parseQuantGroup reads one group of a compressed-tensors scheme.
func parseQuantGroup(g fields, c *Config) {
	if w, ok := g.object("weights"); ok {
		w.wantInt("num_bits", 8)
		w.wantString("type", "float")
		w.wantBool("symmetric", true)
		w.wantString("strategy", "channel", "block")
		if w.m["strategy"] == "block" {
			c.Quant.Scale = ScaleBlock128
			wantBlock128(w, "block_structure")
		}
	}
	if a, ok := g.object("input_activations"); ok {
		a.wantBool("dynamic", true)
	}
	g.wantAbsent("output_activations")
}

func wantBlock128(f fields, name string) {
	v, ok := f.get(name)
	if !ok {
		return
	}
	if list, ok := v.([]any); ok && len(list) == 2 {
		rows, okR := toInt(list[0])
		cols, okC := toInt(list[1])
		if okR && okC && rows == Block && cols == Block {
			return
		}
	}
	f.refuse(name, v, "[128,128]")
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
