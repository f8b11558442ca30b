package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// What each template prints for an assistant message, up to the answer A: in the
// current turn, and in one before the last message of the user.
func TestReasoning(t *testing.T) {
	const (
		stated   = `"content": " A\n", "reasoning_content": " r\n"`
		empty    = `"content": "A", "reasoning_content": ""`
		none     = `"content": "A"`
		inline   = `"content": "x<think>\n r \n</think>\n</think>\nA"`
		blank    = `"content": "<think>\n\n</think>A"`
		literal  = `"content": "A</think>B", "reasoning_content": ""`
		spaces   = `"content": "A", "reasoning_content": "  "`
		closed   = "</think>A"
		both     = "<think></think>A"
		stripped = "<think>r</think>A"
		verbatim = "<think> r\n</think>A"
	)
	tests := []struct {
		template string
		message  string
		effort   Effort
		past     Past
		current  string
		earlier  string
	}{
		{"GLM-4.5", stated, "", PastKept, "\n<think>r</think>\nA", "\n<think></think>\nA"},
		{"GLM-4.5", inline, "", PastDefault, "\n<think>r</think>\nA", "\n<think></think>\nA"},
		{"GLM-4.5", none, EffortNone, PastDefault, "\n<think></think>\nA", "\n<think></think>\nA"},
		{"GLM-4.5", literal, "", PastDefault, "\n<think></think>\nA</think>B", "\n<think></think>\nA</think>B"},

		{"GLM-4.7", stated, "", PastDefault, stripped, closed},
		{"GLM-4.7", stated, "", PastCleared, stripped, closed},
		{"GLM-4.7", stated, "", PastKept, stripped, stripped},
		{"GLM-4.7", inline, "", PastKept, stripped, stripped},
		{"GLM-4.7", blank, "", PastKept, closed, closed},
		{"GLM-4.7", spaces, "", PastKept, both, both},
		{"GLM-4.7", empty, "", PastKept, closed, closed},
		{"GLM-5", none, "", PastKept, closed, closed},
		{"GLM-5", stated, EffortNone, PastDefault, stripped, closed},

		{"GLM-5.1", stated, "", PastDefault, verbatim, closed},
		{"GLM-5.1", stated, "", PastKept, verbatim, verbatim},
		{"GLM-5.1", none, "", PastDefault, both, closed},
		{"GLM-5.1", none, EffortNone, PastDefault, closed, closed},
		{"GLM-5.1", empty, EffortNone, PastKept, both, both},
		{"GLM-5.1", empty, "", PastCleared, both, closed},
		{"GLM-5.1", inline, "", PastKept, "<think> r </think>A", "<think> r </think>A"},

		{"GLM-5.2", stated, "", PastDefault, verbatim, both},
		{"GLM-5.2", stated, "", PastKept, verbatim, verbatim},
		{"GLM-5.2", stated, EffortNone, PastDefault, verbatim, both},
		{"GLM-5.2", none, "", PastKept, both, both},
		{"GLM-5.2", inline, "", PastKept, "<think>\n r \n</think>A", "<think>\n r \n</think>A"},

		{"GLM-5.3", stated, "", PastDefault, verbatim, verbatim},
		{"GLM-5.3", stated, "", PastCleared, verbatim, both},
		{"GLM-5.3", none, EffortNone, PastKept, both, both},
		{"GLM-5.3-Flash", literal, "", PastDefault, "<think></think>A</think>B", "<think></think>A</think>B"},
	}
	for _, tt := range tests {
		var m Message
		if err := json.Unmarshal([]byte(`{"role": "assistant", `+tt.message+`}`), &m); err != nil {
			t.Fatal(err)
		}
		user := Message{Role: RoleUser, Content: "U"}
		for _, at := range []struct {
			want     string
			messages []Message
		}{
			{tt.current, []Message{user, m, {Role: RoleSystem}}},
			{tt.earlier, []Message{user, m, user}},
		} {
			tmpl := mustNamed(t, tt.template)
			text, err := tmpl.Text(Conversation{Messages: at.messages, Effort: tt.effort, Past: tt.past})
			if err != nil {
				t.Errorf("%s %s: %v", tt.template, tt.message, err)
				continue
			}
			_, have, _ := strings.Cut(text, "<|assistant|>")
			have, _, _ = strings.Cut(have, "<|")
			have = strings.TrimSuffix(have, "/nothink")
			if have != at.want {
				t.Errorf("%s %s, effort %q, past %d: want %q, have %q", tt.template, tt.message, tt.effort, tt.past, at.want, have)
			}
		}
	}
}

// Results of GLM-5.3 stand in the order of the calls only if that is certain.
func TestResultOrder(t *testing.T) {
	call := func(ids ...string) Message {
		m := Message{Role: RoleAssistant}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Name: "f"})
		}
		return m
	}
	results := func(ids ...string) []Message {
		var list []Message
		for _, id := range ids {
			list = append(list, Message{Role: RoleTool, ToolCallID: id, Content: id + "."})
		}
		return list
	}
	list := Message{Role: RoleTool, Parts: []Part{
		{Type: PartOutput, ToolCallID: "c", Text: "c."},
		{Type: PartOutput, ToolCallID: "a", Parts: []Part{{Type: PartText, Text: "a"}, {Type: PartText, Text: "."}}},
	}}
	tests := []struct {
		name     string
		messages []Message
		want     string
	}{
		{"all", append([]Message{call("a", "b", "c")}, results("c", "a", "b")...), "a.b.c."},
		{"some missing", append([]Message{call("a", "b", "c")}, results("c", "a")...), "a.c."},
		{"within a list", []Message{call("a", "b", "c"), list, results("b")[0]}, "a.b.c."},
		{"a result twice", append([]Message{call("a", "b")}, results("b", "a", "b")...), "b.a.b."},
		{"a result without an id", append([]Message{call("a", "b")}, results("b", "", "a")...), "b..a."},
		{"an unknown result", append([]Message{call("a", "b")}, results("b", "x", "a")...), "b.x.a."},
		{"a call twice", append([]Message{call("a", "b", "a")}, results("b", "a")...), "b.a."},
		{"a call without an id", append([]Message{call("a", "", "b")}, results("b", "a")...), "b.a."},
		{"no calls", append([]Message{{Role: RoleUser}}, results("b", "a")...), "b.a."},
	}
	for _, tt := range tests {
		text, err := mustNamed(t, "GLM-5.3").Text(Conversation{Messages: tt.messages})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		_, have, _ := strings.Cut(text, "<|observation|><tool_response>")
		have, _, _ = strings.Cut(have, "</tool_response><|assistant|>")
		have = strings.ReplaceAll(have, "</tool_response><tool_response>", "")
		if have != tt.want {
			t.Errorf("%s: want %s, have %s", tt.name, tt.want, have)
		}
	}
	// The others leave them as they were sent.
	text, err := mustNamed(t, "GLM-5.2").Text(Conversation{Messages: tests[0].messages})
	if want := "c.</tool_response><tool_response>a."; err != nil || !strings.Contains(text, want) {
		t.Errorf("GLM-5.2: want %s in %s, %v", want, text, err)
	}
}

func mustNamed(t *testing.T, name string) *Template {
	t.Helper()
	tmpl, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}
