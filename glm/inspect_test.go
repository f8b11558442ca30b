package glm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// configDir makes a directory that holds one published configuration.
func configDir(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "internal", "checkpoint", "testdata", "config", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func inspect(t *testing.T, dir string) *Inspection {
	t.Helper()
	in, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// What is published about the models: parameters, those active per token (in
// billions, some counts with the input embedding), cache bytes per token.
func TestInspectPublished(t *testing.T) {
	for _, m := range []struct {
		name       string
		parameters int64
		active     float64
		withEmbed  bool
		bf16, fp8  int64
	}{
		{"glm-5", 753_864_139_008, 40.8, false, 109_824, 61_464},
		{"glm-5.2", 753_329_940_480, 40.3, false, 95_232, 53_940},
		{"glm-5.3-flash", 321_323_031_390, 17.4, true, 11_968, 6_171},
		{"glm-4.5", 356_785_898_816, 33.6, true, 376_832, 188_416},
		{"glm-4.7", 356_785_898_816, 33.6, true, 376_832, 188_416},
		{"glm-4.5-air", 109_227_310_848, 13.4, true, 188_416, 94_208},
		{"glm-4.7-flash", 30_587_100_096, 3.9, true, 54_144, 30_832},
	} {
		t.Run(m.name, func(t *testing.T) {
			in := inspect(t, configDir(t, m.name))
			if in.Parameters != m.parameters {
				t.Errorf("%d parameters; want %d", in.Parameters, m.parameters)
			}
			active := in.Active
			if m.withEmbed {
				active += kind(t, in, "embedding").Parameters
			}
			if got := math.Round(float64(active)/1e8) / 10; got != m.active {
				t.Errorf("%d active, %.1f billion; want %.1f", active, got, m.active)
			}
			for i, want := range []KVCost{{Format: "f32"}, {Format: "bf16", PerToken: m.bf16}, {Format: "fp8", PerToken: m.fp8}} {
				got := in.KV[i]
				if got.Format != want.Format || want.PerToken != 0 && got.PerToken != want.PerToken {
					t.Errorf("KV %d: %+v; want %s, %d per token", i, got, want.Format, want.PerToken)
				}
				if m.name != "glm-5.3-flash" && got.FullContext != got.PerToken*int64(in.Context) {
					t.Errorf("%s: %d bytes at full context; want %d tokens of %d", got.Format, got.FullContext, in.Context, got.PerToken)
				}
			}
			if in.KV[0].PerToken != 2*in.KV[1].PerToken {
				t.Errorf("f32 takes %d bytes per token; want twice bf16's %d", in.KV[0].PerToken, in.KV[1].PerToken)
			}
			if in.Files || in.Checked {
				t.Error("claims to have seen weight files")
			}
			if flash := m.name == "glm-5.3-flash"; flash != errors.Is(in.Refusal, ErrUnsupportedModel) || flash != (in.Refusal != nil) {
				t.Errorf("refusal: %v", in.Refusal)
			}
			var tensors int
			var params, bytes, typed int64
			for _, k := range in.Kinds {
				tensors += k.Tensors
				params += k.Parameters
				bytes += k.Bytes
			}
			for _, d := range in.DTypes {
				typed += d.Bytes
			}
			if tensors != in.Tensors || params != in.Parameters || bytes != in.Bytes || typed != in.Bytes {
				t.Errorf("shares sum to %d tensors, %d parameters, %d and %d bytes; whole is %d, %d, %d",
					tensors, params, bytes, typed, in.Tensors, in.Parameters, in.Bytes)
			}
		})
	}
}

func kind(t *testing.T, in *Inspection, name string) KindSize {
	t.Helper()
	for _, k := range in.Kinds {
		if k.Kind == name {
			return k
		}
	}
	t.Fatalf("no kind %q in %+v", name, in.Kinds)
	return KindSize{}
}

func TestInspectFullContext(t *testing.T) {
	in := inspect(t, configDir(t, "glm-5.2-fp8"))
	if in.Bytes != 755_617_140_416 {
		t.Errorf("%d bytes; want 755617140416", in.Bytes)
	}
	if in.KV[1].FullContext != 95_232<<20 || in.KV[2].FullContext != 53_940<<20 {
		t.Errorf("full context %d, %d; want 99.9 GB, 56.6 GB", in.KV[1].FullContext, in.KV[2].FullContext)
	}
	in = inspect(t, configDir(t, "glm-5.3-flash"))
	if in.Bytes != 328_326_771_576 || in.Tensors != 76_108 {
		t.Errorf("%d bytes, %d tensors; want 328326771576, 76108", in.Bytes, in.Tensors)
	}
	// 34 layers: 64 matrices of 128x128 f32, and 3 inputs of 24,576 channels.
	const state, conv = 34 * 64 * 128 * 128 * 4, 34 * 24576 * 3
	for i, elem := range []int64{4, 2, 2} {
		k := in.KV[i]
		if want := state + conv*elem; k.PerSequence != want {
			t.Errorf("%s: %d bytes per sequence; want %d", k.Format, k.PerSequence, want)
		}
		if want := k.PerSequence + k.PerToken<<20; k.FullContext != want {
			t.Errorf("%s: %d bytes at full context; want %d", k.Format, k.FullContext, want)
		}
	}
}

func TestInspectString(t *testing.T) {
	s := inspect(t, configDir(t, "glm-5.2-fp8")).String()
	for _, want := range []string{
		"glm_moe_dsa: 78 layers, 1 MTP, 256 experts of which 8 per token", "runs", "yes", "no weight files",
		"1,048,576 tokens", "753,329,940,480", "755,617,140,416 (755.6 GB)", "F8_E4M3", "experts", "indexer", "95,232", "99.9 GB", "53,940",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	if s := inspect(t, configDir(t, "glm-5.3-flash")).String(); !strings.Contains(s, `no: unsupported model: model_type is "glm5_next"`) {
		t.Errorf("does not say why it does not run:\n%s", s)
	}
}

// tinyDir writes a checkpoint with headers and zero weights.
func tinyDir(t *testing.T, edit func(header map[string]any)) string {
	t.Helper()
	config := []byte(`{"model_type":"glm4_moe_lite","num_hidden_layers":2,"hidden_size":16,"vocab_size":8,"intermediate_size":24,
		"moe_intermediate_size":8,"num_attention_heads":2,"q_lora_rank":8,"kv_lora_rank":8,"qk_nope_head_dim":4,"qk_rope_head_dim":2,
		"v_head_dim":4,"n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":1,"routed_scaling_factor":1.8,
		"first_k_dense_replace":1,"rms_norm_eps":1e-5,"rope_theta":1000000,"max_position_embeddings":64}`)
	c, err := checkpoint.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	header := make(map[string]any)
	var end int64
	for e := range checkpoint.Inventory(c, checkpoint.LayoutFP8) {
		header[e.Name] = map[string]any{"dtype": e.DType, "shape": e.Shape, "data_offsets": []int64{end, end + e.Bytes()}}
		end += e.Bytes()
	}
	if edit != nil {
		edit(header)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"config.json": config, "model.safetensors": append(file, make([]byte, end)...)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInspectHeaders(t *testing.T) {
	in := inspect(t, tinyDir(t, nil))
	if !in.Files || !in.Checked || in.Refusal != nil {
		t.Errorf("files %t, checked %t, refusal %v; want true, true, nil", in.Files, in.Checked, in.Refusal)
	}
	// config.json declares no quantisation; the tensors are FP8 all the same.
	if in.DTypes[0].DType != "F8_E4M3" {
		t.Errorf("largest type %+v; want F8_E4M3", in.DTypes[0])
	}
	// Of 4 experts of three 8x16 matrices, 2 are read.
	if got, want := kind(t, in, "experts").Parameters, int64(4*3*8*16); got != want {
		t.Errorf("%d parameters in experts; want %d", got, want)
	}
	if want := in.Parameters - kind(t, in, "embedding").Parameters - 2*3*8*16; in.Active != want {
		t.Errorf("%d active; want %d", in.Active, want)
	}
	if s := in.String(); !strings.Contains(s, "headers read and checked") {
		t.Errorf("does not say that headers were checked:\n%s", s)
	}
}

func TestInspectErrors(t *testing.T) {
	_, err := Inspect(t.TempDir())
	var c *CheckpointError
	if !errors.Is(err, ErrCorruptCheckpoint) || !errors.Is(err, os.ErrNotExist) || !errors.As(err, &c) || c.File != "config.json" {
		t.Errorf("empty directory: %v", err)
	}
	const norm = "model.norm.weight"
	_, err = Inspect(tinyDir(t, func(h map[string]any) { h[norm].(map[string]any)["shape"] = []int{4, 4} }))
	if !errors.As(err, &c) || c.Tensor != norm || c.File != "model.safetensors" || c.Want != "shape [16]" || c.Have != "[4 4]" {
		t.Errorf("wrong shape: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type":"llama"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var u *UnsupportedError
	if _, err = Inspect(dir); !errors.Is(err, ErrUnsupportedModel) || !errors.As(err, &u) || u.Field != "model_type" || u.Value != `"llama"` {
		t.Errorf("llama: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := group(n); got != want {
			t.Errorf("group(%d) = %s; want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 755_617_140_416: "755.6 GB"} {
		if got := human(n); got != want {
			t.Errorf("human(%d) = %s; want %s", n, got, want)
		}
	}
}
