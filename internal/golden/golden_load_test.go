package golden

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLoad reads every golden and checks that what it holds is whole and consistent.
func TestLoad(t *testing.T) {
	names, err := Names()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("no goldens")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			g, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(g.Dir, "config.json")); err != nil {
				t.Error(err)
			}
			if g.Name != name || g.NormEps <= 0 || g.Noise <= 0 || g.Noise > 2e-5 {
				t.Errorf("name %q, norm eps %g, noise %g", g.Name, g.NormEps, g.Noise)
			}
			if (g.IndexTopK > 0) != (g.IndexerEps > 0) {
				t.Errorf("index_topk %d with indexer eps %g", g.IndexTopK, g.IndexerEps)
			}
			for i := range g.Prompts {
				checkPrompt(t, g, &g.Prompts[i])
			}
		})
	}
}

func checkPrompt(t *testing.T, g *Golden, p *Prompt) {
	rows := len(p.Fed())
	if len(p.Logits) != rows || len(p.Greedy) != 64 {
		t.Fatalf("%d logit rows for %d fed ids, %d greedy ids", len(p.Logits), rows, len(p.Greedy))
	}
	for row, logits := range p.Logits {
		for _, x := range logits {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("row %d has logit %g", row, x)
			}
		}
	}
	for i, want := range p.Greedy {
		logits := p.Logits[len(p.IDs)-1+i]
		if have := slices.Index(logits, slices.Max(logits)); int32(have) != want {
			t.Errorf("greedy step %d: argmax %d, recorded %d", i, have, want)
		}
	}
	if (len(p.Selected) > 0) != (g.IndexTopK > 0) || len(p.Routed) == 0 {
		t.Errorf("%d indexers, %d routers", len(p.Selected), len(p.Routed))
	}
	for layer, lists := range p.Selected {
		if len(lists) != rows {
			t.Fatalf("layer %d: %d selections for %d rows", layer, len(lists), rows)
		}
		for row, list := range lists {
			for j, pos := range list {
				if int(pos) > row || pos < 0 || j > 0 && pos <= list[j-1] {
					t.Fatalf("layer %d row %d selects %v", layer, row, list)
				}
			}
		}
	}
	for layer, routes := range p.Routed {
		if len(routes) != rows {
			t.Fatalf("layer %d: %d routes for %d rows", layer, len(routes), rows)
		}
	}
}

// TestLoadRefuses damages a copy of a golden in one place at a time.
func TestLoadRefuses(t *testing.T) {
	names, err := Names()
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	from, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	read := func(suffix string) []byte {
		data, err := os.ReadFile(filepath.Join(from, names[0]+suffix))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	text, data := string(read(".golden.json")), read(".golden.bin")
	flipped := slices.Clone(data)
	flipped[len(flipped)/2] ^= 1
	cases := []struct {
		name, field, text string
		data              []byte
	}{
		{"format", "format", strings.Replace(text, `"format": 1`, `"format": 9`, 1), data},
		{"truncated", "blob.bytes", text, data[:len(data)-1]},
		{"flipped", "blob.sha256", text, flipped},
		{"shape", "prompts[0].logits shape", strings.Replace(text, `"vocab_size": `, `"vocab_size": 1`, 1), data},
		{"offset", "prompts[0].logits offset", strings.Replace(text, `"offset": 0,`, `"offset": 1000000000,`, 1), data},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(suffix string, data []byte) {
				if err := os.WriteFile(filepath.Join(dir, "x"+suffix), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(".golden.json", []byte(c.text))
			write(".golden.bin", c.data)
			_, err := load(dir, "x")
			var bad *FormatError
			if !errors.As(err, &bad) || bad.Field != c.field {
				t.Errorf("have %v, want a FormatError on %s", err, c.field)
			}
		})
	}
	if _, err := Load("absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent golden: %v", err)
	}
	if _, err := Load("../testdata/" + names[0]); err == nil {
		t.Error("a path was accepted as a name")
	}
}
