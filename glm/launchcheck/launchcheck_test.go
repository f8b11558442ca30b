package launchcheck

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

const goldens = "../../internal/golden/testdata"

func openGolden(t *testing.T, name string) *glm.Model {
	t.Helper()
	m, err := glm.Open(t.Context(), filepath.Join(goldens, name), glm.Config{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// openSpoken opens a golden that was given a tokenizer of bytes and a template.
func openSpoken(t *testing.T, name string) *glm.Model {
	t.Helper()
	files := fstest.MapFS{"tokenizer.json": {Data: byteTokenizer(t)}}
	for _, path := range glob(t, filepath.Join(goldens, name, "*")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = &fstest.MapFile{Data: data}
	}
	m, err := glm.OpenFS(t.Context(), files, glm.Config{Threads: 2, Template: "GLM-5.2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(pattern, err)
	}
	return paths
}

// byteTokenizer is a vocabulary of the 256 bytes and GLM's added tokens.
func byteTokenizer(t *testing.T) []byte {
	t.Helper()
	vocab := map[string]int{}
	other := rune(0x100)
	for b := range 256 {
		c := rune(b)
		if c < '!' || c > '~' && c < '¡' || c == '\u00ad' {
			c = other
			other++
		}
		vocab[string(c)] = b
	}
	var added []map[string]any
	for _, a := range tokenizer.GLMAdded(256) {
		added = append(added, map[string]any{"id": a.ID, "content": a.Content, "special": a.Special})
	}
	const pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	data, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": added,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}},
		"decoder": map[string]any{"type": "ByteLevel"},
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": [][2]string{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A build without faults is beyond doubt, whatever the family and vocabulary.
func TestSound(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoken bool
	}{{"hard", true}, {"air", false}} { // TestBrokenBuilds has glm52
		t.Run(c.name, func(t *testing.T) {
			open := openGolden
			if c.spoken {
				open = openSpoken
			} else if testing.Short() {
				t.Skip("one model is enough in short mode")
			}
			told := 0
			report := Run(t.Context(), open(t, c.name), func(Check) { told++ })
			var table strings.Builder
			if _, err := report.WriteTo(&table); err != nil {
				t.Fatal(err)
			}
			t.Log(table.String())
			if !report.OK() || told != len(report.Checks) {
				t.Errorf("%d checks, told of %d", len(report.Checks), told)
			}
			text := report.Checks[len(report.Checks)-1]
			if c.spoken != (text.Asked > 0) {
				t.Errorf("the last check is %+v", text)
			}
			for _, g := range []string{"answers", "limits", "reuse", "queue", "prefix"} {
				if !slices.ContainsFunc(report.Checks, func(c Check) bool { return c.Group == g && c.Asked > 0 }) {
					t.Errorf("nothing was asked for %s", g)
				}
			}
		})
	}
}

// A check that could not be made is a doubt.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := Run(ctx, openGolden(t, "glm52"), nil)
	if report.OK() {
		t.Error("nothing was looked at, and all is well")
	}
	if (&Report{}).OK() {
		t.Error("an empty report is no reassurance")
	}
}

// Of an answer and of the books every difference is seen.
func TestJudgeSees(t *testing.T) {
	m := openGolden(t, "glm52")
	r := &runner{
		ctx: t.Context(), m: m, page: 32, context: 1 << 20, vocab: 200,
		canary: map[int32]bool{250: true}, bans: map[int32]float32{},
	}
	p := r.pool(glm.PoolConfig{Tokens: 64})
	defer p.Close()
	token := func(id int32, lp float32) glm.Token {
		return glm.Token{ID: id, LogProb: lp, Top: []glm.TokenProb{{ID: id, LogProb: lp}}}
	}
	finish := glm.Finish{Reason: glm.FinishLength, Usage: glm.Usage{Prompt: 10, Output: 2}}
	good := func() answer { return answer{tokens: []glm.Token{token(1, -1), token(2, -2)}, finish: finish} }
	a := ask{name: "a", prompt: 10, want: good()}
	for name, spoil := range map[string]func(*answer){
		"":           func(*answer) {},
		"id":         func(a *answer) { a.tokens[1].ID = 3 },
		"canary":     func(a *answer) { a.tokens[1].ID = 250 },
		"logprob":    func(a *answer) { a.tokens[0].LogProb = -1.0000001 },
		"runner-up":  func(a *answer) { a.tokens[0].Top[0].ID = 9 },
		"fewer":      func(a *answer) { a.tokens = a.tokens[:1] },
		"reason":     func(a *answer) { a.finish.Reason = glm.FinishContext },
		"error":      func(a *answer) { a.err = glm.ErrBinding },
		"cached":     func(a *answer) { a.finish.Usage.Cached = 32 },
		"prompt":     func(a *answer) { a.finish.Usage.Prompt = 9 },
		"said twice": func(a *answer) { a.finish.Usage.Output = 4 },
	} {
		r.now = Check{}
		have := good()
		spoil(&have)
		if r.judge(p, "spoiled", a, have, 0); r.doubted() != (name != "") {
			t.Errorf("%q: %q", name, r.now.Doubts)
		}
	}
	for name, spoil := range map[string]func(*pool){
		"":                  func(*pool) {},
		"an answer unheard": func(p *pool) { p.ended++ },
		"a row too many":    func(p *pool) { p.booked++ },
		"a row not there":   func(p *pool) { p.booked-- },
		"integrity":         func(p *pool) { p.events["integrity"]++ },
		"refused in secret": func(p *pool) { p.events["refused"]++ },
		"not on record":     func(p *pool) { p.refusals++ },
		"two ends":          func(p *pool) { p.ends[7]++ },
		"no end":            func(p *pool) { p.ends[8] = 0 },
	} {
		r.now = Check{}
		books := &pool{events: map[string]int{}, ends: map[uint64]int{7: 1}, answers: 2, rows: 20, ended: 2, booked: 20}
		spoil(books)
		if r.balance(books); r.doubted() != (name != "") {
			t.Errorf("%q: %q", name, r.now.Doubts)
		}
	}
}
