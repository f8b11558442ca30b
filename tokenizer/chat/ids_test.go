package chat

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// The ids of a prompt spell what the template prints, and are the ids that the
// reference makes of that string as long as no content looks like a control
// token.
func TestIDs(t *testing.T) {
	vocabs := map[string]*tokenizer.Tokenizer{"bytes": byteVocab(), "cl100k": bigVocabulary(t)}
	for vocab, v := range vocabs {
		compared := 0
		for _, g := range readGoldens(t, filepath.Join("testdata", "goldens.json")) {
			c := g.Input.conversation()
			p, err := renderer(t, g.Template, v).Render(c)
			if err != nil {
				t.Errorf("%s %s: %v", g.Template, g.Case, err)
				continue
			}
			if have := string(v.Raw(nil, p.IDs...)); have != g.Expected {
				t.Errorf("%s, %s %s: ids spell\nwant %q\nhave %q", vocab, g.Template, g.Case, g.Expected, have)
			}
			if holdsControl(v, everyText(&c)) {
				continue
			}
			compared++
			if want := v.EncodeWithAdded(nil, g.Expected); !slices.Equal(want, p.IDs) {
				t.Errorf("%s, %s %s: ids\nwant %d\nhave %d", vocab, g.Template, g.Case, want, p.IDs)
			}
		}
		t.Logf("%s: compared %d", vocab, compared)
		if compared < 30 {
			t.Errorf("%s: want at least 30 conversations without control text, have %d", vocab, compared)
		}
	}
}

// With GLM-4.5 the line break after <|user|> and the text of the user are one
// segment: a break and blanks before a word are cut differently apart.
func TestTemplateTextJoinsContent(t *testing.T) {
	v := bigVocabulary(t)
	c := Conversation{Messages: []Message{{Role: RoleUser, Content: "\n  x"}}}
	p, err := renderer(t, "GLM-4.5", v).Render(c)
	if err != nil {
		t.Fatal(err)
	}
	joined := v.Encode(nil, "\n\n  x")
	apart := v.Encode(v.Encode(nil, "\n"), "\n  x")
	if slices.Equal(joined, apart) {
		t.Fatal("the example does not tell the two apart")
	}
	if have := p.IDs[3:p.Generation]; !slices.Equal(have, joined) {
		t.Errorf("want %d, have %d", joined, have)
	}
}

func TestGenerationPrompt(t *testing.T) {
	v := byteVocab()
	tests := []struct {
		template    string
		effort      Effort
		want        string
		inReasoning bool
	}{
		{"GLM-4.5", EffortDefault, "<|assistant|>", false},
		{"GLM-4.5", EffortNone, "<|assistant|>\n<think></think>", false},
		{"GLM-4.7-Flash", EffortHigh, "<|assistant|><think>", true},
		{"GLM-4.7-Flash", EffortNone, "<|assistant|></think>", false},
		{"GLM-5", EffortDefault, "<|assistant|><think>", true},
		{"GLM-5.1", EffortNone, "<|assistant|></think>", false},
		{"GLM-5.2", EffortLow, "<|assistant|><think>", true},
		{"GLM-5.2", EffortNone, "<|assistant|><think></think>", false},
		{"GLM-5.3", EffortNone, "<|assistant|><think>", true},
		{"GLM-5.3-Flash", EffortMedium, "<|assistant|><think>", true},
	}
	for _, tt := range tests {
		r := renderer(t, tt.template, v)
		p, err := r.Render(Conversation{Messages: []Message{{Role: RoleUser, Content: "Hi"}}, Effort: tt.effort})
		if err != nil {
			t.Errorf("%s %q: %v", tt.template, tt.effort, err)
			continue
		}
		have := string(v.Raw(nil, p.IDs[p.Generation:]...))
		if have != tt.want || p.InReasoning != tt.inReasoning {
			t.Errorf("%s %q: want %q in reasoning %t, have %q %t",
				tt.template, tt.effort, tt.want, tt.inReasoning, have, p.InReasoning)
		}
		if r.Template().Name() != tt.template {
			t.Errorf("want the template %s, have %s", tt.template, r.Template().Name())
		}
	}
}
