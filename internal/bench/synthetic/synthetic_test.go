package synthetic

import (
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
)

// Groups hold one -8 and are exact in bfloat16; rows differ.
func TestGroups(t *testing.T) {
	m := MatrixOf("a", 300, 64)
	var sum, squares float64
	for r := range m.Rows {
		for g := range m.Groups() {
			group, lowest := m.Group(r, g), 0
			if group.Scale < 8 || group.Scale > 15 {
				t.Fatalf("row %d: scale %d", r, group.Scale)
			}
			for i := range GroupLen {
				if group.Code(i) == 0 {
					lowest++
				}
				v := m.At(r, g*GroupLen+i)
				if math.Float32bits(v)&0xffff != 0 {
					t.Fatalf("row %d: %g is not a bfloat16", r, v)
				}
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			if lowest != 1 {
				t.Fatalf("row %d: %d elements of a group are -8", r, lowest)
			}
		}
	}
	n := float64(m.Rows * m.Cols)
	if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 2e-3 || deviation < 0.02 || deviation > 0.03 {
		t.Errorf("mean %g, deviation %g, want about -0.0014, of the -8s, and 0.025", mean, deviation)
	}
	if m.Group(0, 0).Nibbles[0] == m.Group(1, 0).Nibbles[0] && m.Group(0, 0).Nibbles[1] == m.Group(1, 0).Nibbles[1] {
		t.Error("two rows begin alike")
	}
}

// A row, its elements and its stored bytes agree.
func TestRowAndBytes(t *testing.T) {
	m := MatrixOf("b", 5, 96)
	data, row := make([]byte, 4*m.Rows*m.Cols), make([]float32, m.Cols)
	FillMatrix(data, backend.F32, m)
	for r := range m.Rows {
		m.Row(row, r)
		for c, v := range row {
			bits := uint32(0)
			for i := range 4 {
				bits |= uint32(data[4*(r*m.Cols+c)+i]) << (8 * i)
			}
			if v != m.At(r, c) || math.Float32frombits(bits) != v {
				t.Fatalf("element %d, %d: row %g, At %g, stored %g", r, c, v, m.At(r, c), math.Float32frombits(bits))
			}
		}
	}
}

// A small model of each format runs and gives finite logits. All but FP8 hold the
// same values, so that their logits differ by the rounding of activations at most,
// and by that of what is not exact in eight bits.
func TestModelsRun(t *testing.T) {
	logits := map[Format][]float32{}
	for _, f := range []Format{F32, BF16, FP8, Int8, Int4} {
		logits[f] = runSmall(t, f, 0)
	}
	for f, most := range map[Format]float64{BF16: 1e-5, Int8: 0.05, Int4: 0.05} {
		if d := distance(logits[f], logits[F32]); d > most {
			t.Errorf("%s: logits are %g of their size away from those in f32, want at most %g", f, d, most)
		}
	}
	runSmall(t, Int4, 16)
}

// distance returns |a-b| / |b|.
func distance(a, b []float32) float64 {
	var d, n float64
	for i := range a {
		d += float64(a[i]-b[i]) * float64(a[i]-b[i])
		n += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(d / n)
}

// small is a model of three layers that a test can run.
const small = `{
  "model_type": "glm4_moe_lite", "num_hidden_layers": 3, "first_k_dense_replace": 1, "vocab_size": 160,
  "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 128,
  "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 128, "kv_lora_rank": 128,
  "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 64, "rope_theta": 10000,
  "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
  "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 1.8, "rms_norm_eps": 1e-05,
  "max_position_embeddings": 4096, "attention_bias": false, "tie_word_embeddings": false, "hidden_act": "silu"
}`

func runSmall(t *testing.T, f Format, period int) []float32 {
	t.Helper()
	ck, err := Open(t.TempDir(), small)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	b, err := NewBackend(2, f)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Period = period
	m, err := decoder.Load(b, ck, decoder.Options{Rows: 4, Outs: 1})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := b.NewPages(backend.PageSpec{Pages: 1, PageSize: 4, Format: backend.KVF32, Planes: m.Planes})
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	step := &backend.Step{
		IDs: []int32{3, 1, 4, 159}, Seq: make([]int32, 4), Pos: []int32{0, 1, 2, 3}, QStart: []int32{0, 4}, KVLen: []int32{4},
		Session: []uint64{1}, Tag: []uint64{0}, Pages: []int32{0}, PageTag: []uint64{0}, Stride: 1,
		Out: []int32{3}, Sampling: make([]backend.Sampling, 1),
	}
	if err := b.Start(m.Program, step, pages); err != nil {
		t.Fatal(err)
	}
	r, err := b.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for row, h := range r.Health {
		if h != 0 {
			t.Fatalf("%s: row %d is %v", f, row, h)
		}
	}
	if b.Memory() == 0 {
		t.Fatalf("%s: no weight was generated", f)
	}
	return b.Read(m.Logits, 1)
}
