package checkpoint

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// typed fails unless err is one of the two kinds that a file can cause.
func typed(t *testing.T, err error) {
	t.Helper()
	var u *UnsupportedError
	var c *CheckpointError
	switch {
	case errors.Is(err, ErrUnsupportedModel) && errors.As(err, &u) && u.Field != "" && u.Value != "" && u.Supported != "":
	case errors.Is(err, ErrCorruptCheckpoint) && errors.As(err, &c) && c.File != "" && c.Want != "" && c.Have != "" && c.Offset >= -1:
	default:
		t.Fatalf("untyped error: %#v", err)
	}
}

// FuzzConfig: any text is a configuration or a typed error, and a configuration
// has consistent schedules and an inventory of sane sizes.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "config", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, m := range []map[string]any{tinyDSA(), tinyGQA(), tinyLite()} {
		f.Add(mustJSON(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			if c != nil {
				t.Fatal("a configuration beside an error")
			}
			typed(t, err)
			return
		}
		if err := c.Runnable(); err != nil {
			typed(t, err)
		}
		if len(c.Sparse) != c.Layers || c.TopK > c.Experts || c.MLA() == (c.HeadDim > 0) {
			t.Fatalf("inconsistent: %+v", c)
		}
		if n := len(c.Index.Full); n != 0 && (n != c.Layers || c.Family != GLM5Next && !c.Index.Full[0]) {
			t.Fatalf("inconsistent schedule: %+v", c)
		}
		if err := c.ParseGeneration(data); err != nil {
			typed(t, err)
		}
		n := 0
		for _, l := range []Layout{LayoutBF16, LayoutFP8} {
			for e := range Inventory(c, l) {
				if e.Elements() <= 0 || e.Bytes() <= 0 || e.Bytes() > 1<<50 {
					t.Fatalf("%s %v: %d bytes", e.Name, e.Shape, e.Bytes())
				}
				if n++; n > 5000 {
					break
				}
			}
		}
	})
}

// FuzzSafetensors: any file is a checkpoint whose tensors can all be read, or a
// typed error; and nothing stays mapped.
func FuzzSafetensors(f *testing.F) {
	config := map[string]any{
		"model_type": "glm4_moe", "num_hidden_layers": 1, "hidden_size": 2, "vocab_size": 2, "intermediate_size": 2,
		"moe_intermediate_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "partial_rotary_factor": 1,
		"rope_theta": 1e4, "n_routed_experts": 1, "num_experts_per_tok": 1, "n_shared_experts": 1, "routed_scaling_factor": 1,
		"first_k_dense_replace": 1, "rms_norm_eps": 1e-5, "max_position_embeddings": 16,
	}
	for _, l := range []Layout{LayoutBF16, LayoutFP8} {
		f.Add(newFixture(f, config, l).files(f)[singleFile], []byte(nil))
	}
	f.Add(rawSafetensors([]byte(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`), make([]byte, 4)),
		[]byte(`{"weight_map":{"a":"a.safetensors","b":"model.safetensors"}}`))
	sharded := newFixture(f, config, LayoutFP8)
	sharded.shards = 1
	files := sharded.files(f)
	f.Add(files[shardName(0, 1)], files[indexFile])

	configText := mustJSON(f, config)
	f.Fuzz(func(t *testing.T, file, index []byte) {
		start := offheap.InUse()
		files := map[string][]byte{configFile: configText, singleFile: file, shardName(0, 1): file, "a.safetensors": file}
		if len(index) > 0 {
			files[indexFile] = index
			delete(files, singleFile)
		}
		c, err := OpenFS(mapFS(files))
		if err == nil {
			for name := range c.table.byName {
				x, err := c.Tensor(name)
				if err != nil {
					typed(t, err)
					continue
				}
				if n := product(x.Shape, math.MaxInt32); int(n)*x.DType.Size() != len(x.Data) {
					t.Fatalf("%s: %d bytes for %s %v", name, len(x.Data), x.DType, x.Shape)
				}
				for i := range len(x.Scale.Data) / max(x.Scale.DType.Size(), 1) {
					x.Scale.At(i)
				}
			}
			err = c.Close()
		} else {
			typed(t, err)
			err = nil
		}
		if err != nil || offheap.InUse() != start {
			t.Fatalf("close: %v, %d bytes left", err, offheap.InUse()-start)
		}
	})
}
