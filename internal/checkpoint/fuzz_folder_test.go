package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzGeneration: any text is a generation_config.json whose values are in range,
// or a typed error that leaves the configuration as it was.
func FuzzGeneration(f *testing.F) {
	for _, s := range []string{
		`{"eos_token_id":[1,2],"temperature":1.0,"top_p":0.95,"do_sample":true,"top_k":40}`,
		`{"eos_token_id":3,"min_p":0,"repetition_penalty":1.05}`, `{"temperature":"1"}`, `{"top_k":-1}`, `{"eos_token_id":[1e400]}`, `[]`, `{}`,
	} {
		f.Add([]byte(s))
	}
	config := mustJSON(f, tinyDSA())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		before, eos := c.Generation, len(c.EOS)
		if err := c.ParseGeneration(data); err != nil {
			typed(t, err)
			if c.Generation.Temperature != before.Temperature || c.Generation.TopK != before.TopK || len(c.EOS) != eos {
				t.Fatal("an error, and the configuration is another")
			}
			return
		}
		for _, id := range c.EOS {
			if id < 0 || int(id) >= c.Vocab {
				t.Fatalf("id %d of %d ends a reply", id, c.Vocab)
			}
		}
		g := c.Generation
		for _, x := range []struct {
			v       *float64
			lo, top float64
		}{{g.Temperature, 0, 100}, {g.TopP, 0, 1}, {g.MinP, 0, 1}, {g.RepetitionPenalty, 0, 100}} {
			if x.v != nil && !(*x.v >= x.lo && *x.v <= x.top) {
				t.Fatalf("%v is out of [%v, %v]", *x.v, x.lo, x.top)
			}
		}
		if g.TopK != nil && *g.TopK < 0 {
			t.Fatal("top_k below 0")
		}
	})
}

// FuzzScan: what is read of a folder without its weights is what is read with
// them: both give a checkpoint, or both a typed error.
func FuzzScan(f *testing.F) {
	config := map[string]any{
		"model_type": "glm4_moe", "num_hidden_layers": 1, "hidden_size": 2, "vocab_size": 2, "intermediate_size": 2,
		"moe_intermediate_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "partial_rotary_factor": 1,
		"rope_theta": 1e4, "n_routed_experts": 1, "num_experts_per_tok": 1, "n_shared_experts": 1, "routed_scaling_factor": 1,
		"first_k_dense_replace": 1, "rms_norm_eps": 1e-5, "max_position_embeddings": 16,
	}
	for _, l := range []Layout{LayoutBF16, LayoutFP8} {
		f.Add(newFixture(f, config, l).files(f)[singleFile])
	}
	f.Add([]byte{})
	f.Add([]byte{8, 0, 0, 0, 0, 0, 0, 0, '{', '}', ' ', ' ', ' ', ' ', ' ', ' '})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127, '{', '}'})
	text := mustJSON(f, config)
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, configFile), text, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if err := os.WriteFile(filepath.Join(dir, singleFile), file, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Scan(dir)
		c, err2 := OpenFS(mapFS(map[string][]byte{configFile: text, singleFile: file}))
		if (err == nil) != (err2 == nil) {
			t.Fatalf("scanned %v, opened %v", err, err2)
		}
		if err != nil {
			typed(t, err)
			typed(t, err2)
			return
		}
		defer c.Close()
		n := 0
		for e := range l.Tensors() {
			n++
			if e.Elements() <= 0 || e.Bytes() <= 0 || e.Bytes() > int64(len(file)) {
				t.Fatalf("%s: %d bytes in a file of %d", e.Name, e.Bytes(), len(file))
			}
		}
		if n == 0 || !l.Checked() || !l.Files {
			t.Fatalf("%d tensors, checked %v", n, l.Checked())
		}
	})
}
