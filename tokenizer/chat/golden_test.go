package chat

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A golden is a conversation in the form the reference templates take it, and
// what they print.
type golden struct {
	Template string      `json:"template"`
	Case     string      `json:"case"`
	Input    goldenInput `json:"input"`
	Expected string      `json:"expected"`
}

type goldenInput struct {
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools"`
	Effort   Effort    `json:"reasoning_effort"`
	Thinking *bool     `json:"enable_thinking"`
	Clear    *bool     `json:"clear_thinking"`
}

func (g *goldenInput) conversation() Conversation {
	c := Conversation{Messages: g.Messages, Tools: g.Tools, Effort: g.Effort}
	if g.Thinking != nil && !*g.Thinking {
		c.Effort = EffortNone
	}
	if g.Clear != nil {
		c.Past = PastKept
		if *g.Clear {
			c.Past = PastCleared
		}
	}
	return c
}

// released are 40 prompts that the released templates print. They are data of
// the project, kept beside the repository.
const released = "../../../shared/data/glm-template-goldens.json"

// nullContent lists the goldens in which the released template prints the content
// null as None; here it is empty, and the text is taken out of the expectation.
// With GLM-4.5 the line it stands on goes too.
var nullContent = map[string]string{
	"GLM-4.5":       "\nNone",
	"GLM-4.6":       "\nNone",
	"GLM-4.7-Flash": "None",
	"GLM-5.2":       "None",
}

func TestReleasedGoldens(t *testing.T) {
	data, err := os.ReadFile(filepath.FromSlash(released))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no %s: the prompts of the released templates are not beside this checkout", released)
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []golden }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 40 {
		t.Errorf("want 40 goldens, have %d", len(file.Cases))
	}
	nulls := 0
	for _, g := range file.Cases {
		if none, ok := nullContent[g.Template]; ok && g.Case == "tools_history" {
			if strings.Count(g.Expected, none) != 1 {
				t.Errorf("%s %s: want %q once in the golden", g.Template, g.Case, none)
			}
			g.Expected = strings.Replace(g.Expected, none, "", 1)
			nulls++
		}
		g.check(t)
	}
	if nulls != len(nullContent) {
		t.Errorf("want %d goldens with null content, have %d", len(nullContent), nulls)
	}
}

// check renders a golden to text and, with a small vocabulary, to ids.
func (g *golden) check(t *testing.T) {
	t.Helper()
	tmpl, err := Named(g.Template)
	if err != nil {
		t.Error(err)
		return
	}
	text, err := tmpl.Text(g.Input.conversation())
	if err != nil {
		t.Errorf("%s %s: %v", g.Template, g.Case, err)
		return
	}
	if text != g.Expected {
		t.Errorf("%s %s:\nwant %q\nhave %q", g.Template, g.Case, g.Expected, text)
	}
}

func readGoldens(t *testing.T, path string) []golden {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []golden }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file.Cases
}

// TestGoldens compares with prompts that our own templates print, see
// testdata/README.md.
func TestGoldens(t *testing.T) {
	cases := readGoldens(t, filepath.Join("testdata", "goldens.json"))
	if len(cases) != 100 {
		t.Errorf("want 100 goldens, have %d", len(cases))
	}
	for _, g := range cases {
		g.check(t)
	}
}

// TestMoreGoldens compares with files that testdata/generate.py made and that
// are not part of the repository.
func TestMoreGoldens(t *testing.T) {
	list := os.Getenv("CHAT_GOLDENS")
	if list == "" {
		t.Skip("CHAT_GOLDENS names no files")
	}
	for _, path := range filepath.SplitList(list) {
		cases := readGoldens(t, path)
		for _, g := range cases {
			g.check(t)
		}
		t.Logf("%s: %d prompts", path, len(cases))
	}
}
