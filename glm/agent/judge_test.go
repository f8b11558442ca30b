package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm/agent"
	"github.com/cofferdam-ml/cofferdam/glm/agent/workspace"
	"github.com/cofferdam-ml/cofferdam/internal/tiny/tasks"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// A record is what testdata/generate/judge.py writes of a repair.
type record struct {
	Task    tasks.Task
	Replies [][]int32
	Prompts [][]int32
	Passed  bool
}

// The prompts of the agent with the tools of a workspace are those of the Python
// judge, id for id, tool results and all.
func TestPromptsAreTheJudges(t *testing.T) {
	data, err := os.ReadFile("testdata/judge.json")
	if err != nil {
		t.Fatal(err)
	}
	var records []record
	if err := json.Unmarshal(data, &records); err != nil {
		t.Fatal(err)
	}
	if len(records) < 2 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		t.Run(r.Task.Name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range r.Task.Files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w, err := workspace.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			a, prompts := agent.Replay(t, agent.Config{Tools: w.Tools()}, r.Replies)
			for _, err := range a.Run(t.Context(), r.Task.Request) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(*prompts) != len(r.Prompts) {
				t.Errorf("%d prompts, want %d", len(*prompts), len(r.Prompts))
			}
			for i := range min(len(*prompts), len(r.Prompts)) {
				if have, want := (*prompts)[i], r.Prompts[i]; !slices.Equal(have, want) {
					n := 0
					for n < min(len(have), len(want)) && have[n] == want[n] {
						n++
					}
					t.Errorf("prompt %d: after %d ids have %q, want %q", i, n, spell(have[n:]), spell(want[n:]))
				}
			}
			if passed, err := w.Passes(t.Context()); err != nil || passed != r.Passed {
				t.Errorf("passes: %v, %v", passed, err)
			}
		})
	}
}

// spell shows the beginning of ids that are bytes.
func spell(ids []int32) string {
	var b strings.Builder
	for _, id := range ids[:min(len(ids), 80)] {
		if id < 256 {
			b.WriteByte(byte(id))
		} else {
			b.WriteString("<>")
		}
	}
	return b.String()
}

// The model is shown the tools with the very text that it was trained with.
func TestToolsAreTheTrainedOnes(t *testing.T) {
	data, err := os.ReadFile("../../internal/tiny/train/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := chat.Conversation{Messages: []chat.Message{{Role: chat.RoleUser}}}
	for _, tool := range w.Tools() {
		c.Tools = append(c.Tools, chat.Tool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters})
	}
	template, err := chat.Named("GLM-5.3")
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := template.Text(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"<tools>"}
	for line := range strings.Lines(string(data)) {
		if _, inner, ok := strings.Cut(line, `"function": `); ok {
			want = append(want, strings.TrimSuffix(strings.TrimRight(inner, ",\n"), "}"))
		}
	}
	if len(want) != 5 {
		t.Fatalf("tools.json has %d tools", len(want)-1)
	}
	if block := strings.Join(append(want, "</tools>"), "\n"); !strings.Contains(prompt, block) {
		t.Errorf("the prompt is\n%s\nwithout\n%s", prompt, block)
	}
}
