package golden_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// tinyGoldens are the reference's values for the embedded model, as
// internal/tiny/train/goldens.py writes them.
type tinyGoldens struct {
	LatentEps  float64 `json:"latent_eps"`
	VocabSize  int     `json:"vocab_size"`
	Window     int     `json:"window"`
	Perplexity float64 `json:"perplexity"`
	Prompts    []struct {
		Prompt []int32 `json:"prompt"`
		Greedy []int32 `json:"greedy"`
	} `json:"prompts"`
}

func tinyFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "tiny", "goldens", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func openTiny(t *testing.T, b backend.Backend, rows int) (*tinyGoldens, *engine) {
	t.Helper()
	var want tinyGoldens
	if err := json.Unmarshal(tinyFile(t, "goldens.json"), &want); err != nil {
		t.Fatal(err)
	}
	for _, p := range want.Prompts {
		rows = max(rows, len(p.Prompt))
	}
	g := &golden.Golden{Dir: filepath.Join("..", "tiny", "model"), LatentEps: want.LatentEps, VocabSize: want.VocabSize}
	return &want, open(t, g, b, rows, (rows+64)/pageSize+1, backend.KVF32)
}

// logits are those after each prompt.
func (g *tinyGoldens) logits(t *testing.T) [][]float32 {
	t.Helper()
	all := make([]float32, len(g.Prompts)*g.VocabSize)
	if err := binary.Read(bytes.NewReader(tinyFile(t, "logits.f32")), binary.LittleEndian, all); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(all, g.VocabSize))
}

// release scrubs the pages of s and gives them back.
func (e *engine) release(s *sequence) {
	for _, p := range s.pages {
		e.pages.Scrub(int(p))
	}
	e.free = append(e.free, s.pages...)
	s.pages, s.n = nil, 0
}

// The embedded model gives the reference's logits after ten prompts and its 64
// greedy ids after each.
func TestTinyReference(t *testing.T) {
	want, e := openTiny(t, cpu.Open(0), 0)
	logits := want.logits(t)
	worst := 0.0
	for i, p := range want.Prompts {
		if len(p.Greedy) != 64 {
			t.Fatalf("prompt %d has %d greedy ids", i, len(p.Greedy))
		}
		s := &sequence{tag: uint64(i + 1)}
		rows, ids := e.step(t, chunk{s: s, ids: p.Prompt})
		d := farthest(rows[len(rows)-1], logits[i])
		if !(d <= logitBound) {
			t.Errorf("prompt %d: logits differ by %g", i, d)
		}
		worst = max(worst, d)
		have := []int32{ids[len(ids)-1]}
		for len(have) < len(p.Greedy) {
			_, ids := e.step(t, chunk{s: s, ids: have[len(have)-1:]})
			have = append(have, ids[0])
		}
		if !slices.Equal(have, p.Greedy) {
			t.Errorf("prompt %d: greedy ids %v, want %v", i, have, p.Greedy)
		}
		e.release(s)
	}
	t.Logf("largest difference of a logit %.2g", worst)
}

// The embedded model has the reference's perplexity on 20,000 held-out tokens.
func TestTinyPerplexity(t *testing.T) {
	if testing.Short() {
		t.Skip("computes 20,000 rows")
	}
	data := tinyFile(t, "heldout.u16")
	ids := make([]uint16, len(data)/2)
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, ids); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 20_000 {
		t.Fatalf("%d held-out tokens, want 20,000", len(ids))
	}
	want, e := openTiny(t, cpu.Open(0), 1000)
	loss, n := 0.0, 0
	for window := range slices.Chunk(ids, want.Window) {
		row := make([]int32, len(window))
		for i, id := range window {
			row[i] = int32(id)
		}
		s := &sequence{tag: uint64(n + 1)}
		logits, _ := e.step(t, chunk{s: s, ids: row})
		for i, next := range row[1:] {
			most := float64(slices.Max(logits[i]))
			sum := 0.0
			for _, l := range logits[i] {
				sum += math.Exp(float64(l) - most)
			}
			loss += math.Log(sum) + most - float64(logits[i][next])
			n++
		}
		e.release(s)
	}
	have := math.Exp(loss / float64(n))
	t.Logf("perplexity %.5f, the reference's %.5f", have, want.Perplexity)
	if math.Abs(have/want.Perplexity-1) > 1e-4 {
		t.Errorf("perplexity %g, want %g", have, want.Perplexity)
	}
}
