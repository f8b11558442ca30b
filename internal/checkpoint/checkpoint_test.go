package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// opened checks one fixture through both doors and hands each to use.
func opened(t *testing.T, f *fixture, use func(t *testing.T, c *Checkpoint)) {
	t.Helper()
	files := f.files(t)
	start := offheap.InUse()
	for _, door := range []struct {
		name string
		open func() (*Checkpoint, error)
	}{
		{"dir", func() (*Checkpoint, error) { return Open(writeFiles(t, files)) }},
		{"fs", func() (*Checkpoint, error) { return OpenFS(mapFS(files)) }},
	} {
		t.Run(door.name, func(t *testing.T) {
			c, err := door.open()
			if err != nil {
				t.Fatal(err)
			}
			if offheap.InUse() == start {
				t.Error("nothing is mapped while the checkpoint is open")
			}
			use(t, c)
			for range 2 {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if got := offheap.InUse(); got != start {
				t.Errorf("%d bytes mapped after Close; started at %d", got, start)
			}
			if _, err := c.Tensor("lm_head.weight"); !errors.Is(err, os.ErrClosed) {
				t.Errorf("Tensor after Close: %v; want os.ErrClosed", err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	for _, m := range []struct {
		name   string
		config map[string]any
		layout Layout
		shards int
	}{
		{"dsa fp8 in 3 shards", tinyDSA(), LayoutFP8, 3},
		{"dsa bf16", tinyDSA(), LayoutBF16, 0},
		{"lite bf16 in 2 shards", tinyLite(), LayoutBF16, 2},
		{"gqa fp8 per channel", tinyGQA(), LayoutFP8, 0},
	} {
		t.Run(m.name, func(t *testing.T) {
			f := newFixture(t, m.config, m.layout)
			f.shards = m.shards
			opened(t, f, func(t *testing.T, c *Checkpoint) {
				for _, p := range f.tensors {
					x, err := c.Tensor(p.name)
					if err != nil {
						t.Fatal(err)
					}
					if string(x.DType) != p.dtype || !slices.Equal(x.Shape, p.shape) || !bytes.Equal(x.Data, p.data) {
						t.Fatalf("%s: read %s %v, wrote %s %v; bytes equal: %t", p.name, x.DType, x.Shape, p.dtype, p.shape, bytes.Equal(x.Data, p.data))
					}
					if cap(x.Data) != len(x.Data) {
						t.Fatalf("%s: appending would write into the next tensor", p.name)
					}
					if (x.Scale.Kind != ScaleNone) != (x.DType == F8) {
						t.Fatalf("%s: %s with scale %s", p.name, x.DType, x.Scale.Kind)
					}
				}
			})
		})
	}
}

// Data that starts at an odd byte: the format does not promise alignment.
func TestUnaligned(t *testing.T) {
	f := newFixture(t, tinyDSA(), LayoutFP8)
	files := f.files(t)
	files[singleFile] = editHeader(t, files[singleFile], func(h []byte) []byte {
		if h = bytes.TrimRight(h, " "); len(h)%2 == 0 {
			h = append(h, ' ')
		}
		return h
	})
	start := offheap.InUse()
	c, err := OpenFS(mapFS(files))
	if err != nil {
		t.Fatal(err)
	}
	name := "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
	x, err := c.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	want := f.tensor(t, name+scaleBlockSuffix)
	if len(x.Scale.Data) != len(want.data) {
		t.Fatalf("%d bytes of scales; want %d", len(x.Scale.Data), len(want.data))
	}
	for i := range len(want.data) / 4 {
		if got, w := x.Scale.At(i), math.Float32frombits(binary.LittleEndian.Uint32(want.data[4*i:])); got != w {
			t.Fatalf("scale %d is %g; want %g", i, got, w)
		}
	}
	if n := len(x.Scale.Data) / 4; n != 2*2 {
		t.Fatalf("%d scales for [144, 160]; want 4", n)
	}
	if err := c.Close(); err != nil || offheap.InUse() != start {
		t.Fatalf("close: %v, %d bytes left", err, offheap.InUse()-start)
	}
}

// Extra tensors that are on the short list, and MTP layers that are absent.
func TestAcceptedExtras(t *testing.T) {
	f := newFixture(t, tinyDSA(), LayoutFP8)
	p := "model.layers.1.self_attn.indexer." // layer 1 shares
	f.add(p+"wq_b.weight", "BF16", 32, 48)
	f.add(p+"k_norm.bias", "F32", 16)
	f.add("model.layers.3.embed_tokens.weight", "BF16", 70, 160)
	f.add("model.layers.3.shared_head.head.weight", "F8_E4M3", 70, 160)
	f.add("model.layers.3.shared_head.head.weight_scale", "BF16", 70, 1)
	f.add("model.rotary_emb.inv_freq", "F32", 4)
	f.add("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 4)
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		if _, err := c.Tensor(p + "wq_b.weight"); err != nil {
			t.Error(err)
		}
		var e *CheckpointError
		if _, err := c.Tensor(p + "wk.weight"); !errors.As(err, &e) || e.Tensor != p+"wk.weight" {
			t.Errorf("%v; want a *CheckpointError that names the tensor", err)
		}
	})

	f = newFixture(t, tinyDSA(), LayoutFP8)
	f.tensors = slices.DeleteFunc(f.tensors, func(p part) bool { return bytes.HasPrefix([]byte(p.name), []byte("model.layers.3.")) })
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		if _, err := c.Tensor("model.layers.3.eh_proj.weight"); !errors.Is(err, ErrCorruptCheckpoint) {
			t.Errorf("%v; want no MTP layer", err)
		}
	})
}

// An MTP layer that config.json does not declare is accepted whole, and only whole.
func TestUndeclaredMTPLayer(t *testing.T) {
	f := newFixture(t, tinyDSA(), LayoutFP8)
	delete(f.config, "num_nextn_predict_layers")
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		if c.Config.MTPLayers != 0 {
			t.Errorf("%d MTP layers; want what config.json says", c.Config.MTPLayers)
		}
		if _, err := c.Tensor("model.layers.3.eh_proj.weight"); err != nil {
			t.Error(err)
		}
	})
	f.drop(t, "model.layers.3.hnorm.weight")
	_, err := OpenFS(mapFS(f.files(t)))
	var e *CheckpointError
	if !errors.As(err, &e) || e.Tensor != "model.layers.3.hnorm.weight" {
		t.Errorf("%v; want an error that names the missing tensor", err)
	}
}

// Every linear weight may be stored in any type, with either kind of scale.
func TestQuantisationFollowsTensors(t *testing.T) {
	f := newFixture(t, tinyDSA(), LayoutBF16)
	set := func(name, dtype string, scale string, scaleType string, scaleShape ...int) {
		p := f.tensor(t, name)
		p.dtype = dtype
		n := 1
		for _, d := range p.shape {
			n *= d
		}
		p.data = make([]byte, n*DType(dtype).Size())
		if scale != "" {
			f.add(name+scale, scaleType, scaleShape...)
		}
	}
	set("model.layers.0.self_attn.o_proj.weight", "F8_E4M3", "_scale", "BF16", 160)
	set("model.layers.0.self_attn.kv_b_proj.weight", "F8_E4M3", "_scale_inv", "F32", 1, 2)
	set("model.layers.0.mlp.up_proj.weight", "F16", "", "")
	set("lm_head.weight", "F32", "", "")
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		for name, want := range map[string]ScaleKind{
			"model.layers.0.self_attn.o_proj.weight":    ScaleChannel,
			"model.layers.0.self_attn.kv_b_proj.weight": ScaleBlock128,
			"model.layers.0.mlp.up_proj.weight":         ScaleNone,
		} {
			if x, err := c.Tensor(name); err != nil || x.Scale.Kind != want {
				t.Errorf("%s: scale %s, %v; want %s", name, x.Scale.Kind, err, want)
			}
		}
	})
}

func TestEOS(t *testing.T) {
	f := newFixture(t, tinyDSA(), LayoutBF16)
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		if !slices.Equal(c.Config.EOS, []int32{60, 61}) || c.Config.Pad != 60 {
			t.Errorf("eos %v, pad %d; want config.json's", c.Config.EOS, c.Config.Pad)
		}
	})
	f.generation = map[string]any{"eos_token_id": []any{62, 63, 64}, "temperature": 1, "top_p": 0.95, "do_sample": true, "top_k": 50}
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		g := c.Config.Generation
		if !slices.Equal(c.Config.EOS, []int32{62, 63, 64}) {
			t.Errorf("eos %v; want generation_config.json's", c.Config.EOS)
		}
		if *g.Temperature != 1 || *g.TopP != 0.95 || !*g.DoSample || *g.TopK != 50 || g.MinP != nil || g.RepetitionPenalty != nil {
			t.Errorf("generation %+v", g)
		}
	})
	f.generation = map[string]any{"eos_token_id": 5}
	opened(t, f, func(t *testing.T, c *Checkpoint) {
		if !slices.Equal(c.Config.EOS, []int32{5}) {
			t.Errorf("eos %v; want 5", c.Config.EOS)
		}
	})
}
