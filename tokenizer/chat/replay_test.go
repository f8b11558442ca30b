package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// sampledIDs returns ids for text as a model may sample them: one id per byte,
// which no encoder would choose, with control tokens where the text names them.
func sampledIDs(v *tokenizer.Tokenizer, text string) []int32 {
	var ids []int32
	for text != "" {
		next := len(text)
		for _, a := range v.Added() {
			if rest, ok := strings.CutPrefix(text, a.Content); ok {
				ids, next, text = append(ids, a.ID), 0, rest
				break
			}
		}
		if next > 0 {
			ids = v.Encode(ids, text[:1])
			text = text[1:]
		}
	}
	return ids
}

// turn renders a conversation, attaches the sampled text to the reply and
// returns both.
func turn(t *testing.T, r *Renderer, c Conversation, reply Message, sampled string) (*Prompt, Message, []int32) {
	t.Helper()
	p, err := r.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	ids := sampledIDs(r.tokens, sampled)
	return p, p.Reply(reply, ids), ids
}

func render(t *testing.T, r *Renderer, c Conversation) []int32 {
	t.Helper()
	p, err := r.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return p.IDs
}

// A dialogue step: what the model samples after the generation prompt, with the
// message it is read as.
type step struct {
	template string
	effort   Effort
	sampled  string
	reply    Message
}

var steps = []step{
	{"GLM-4.5", EffortNone, "\nHello", Message{Role: RoleAssistant, Content: "Hello"}},
	{"GLM-4.7-Flash", EffortDefault, "why</think>Hello", Message{Role: RoleAssistant, Reasoning: "why", Content: "Hello"}},
	{"GLM-5", EffortDefault, "</think>\n\nHello", Message{Role: RoleAssistant, Content: "Hello"}},
	{"GLM-5.1", EffortNone, "Hello", Message{Role: RoleAssistant, Content: "Hello"}},
	{"GLM-5.2", EffortHigh, "why </think>Hello", Message{Role: RoleAssistant, Reasoning: "why ", Content: "Hello"}},
	{"GLM-5.3", EffortNone, "why</think>Hello", Message{Role: RoleAssistant, Reasoning: "why", Content: "Hello"}},
}

// The next prompt begins with the last one and what was sampled after it, its
// stop id included, once.
func TestReplay(t *testing.T) {
	v := bigVocabulary(t)
	for _, s := range steps {
		r := renderer(t, s.template, v)
		c := Conversation{Messages: []Message{{Role: RoleUser, Content: "Hi"}}, Effort: s.effort, Past: PastKept}
		for _, tt := range []struct {
			stop, between, after string
			next                 Message
		}{
			{"<|user|>", "", "Go on", Message{Role: RoleUser, Content: "Go on"}},
			{"<|observation|>", "", "done", Message{Role: RoleTool, Content: "done"}},
			{"<|endoftext|>", "<|user|>", "Go on", Message{Role: RoleUser, Content: "Go on"}},
			{"", "<|endoftext|><|user|>", "Go on", Message{Role: RoleUser, Content: "Go on"}},
		} {
			p, m, ids := turn(t, r, c, s.reply, s.sampled+tt.stop)
			n := c
			n.Messages = append(slices.Clone(c.Messages), m, tt.next)
			have := render(t, r, n)
			want := slices.Concat(p.IDs, ids)
			if len(have) < len(want) || !slices.Equal(have[:len(want)], want) {
				t.Errorf("%s, stop %q: the prompt does not begin with what was fed:\nfed    %q\nprompt %q",
					s.template, tt.stop, v.Raw(nil, want...), v.Raw(nil, have...))
				continue
			}
			rest := string(v.Raw(nil, have[len(want):]...))
			if !strings.HasPrefix(rest, tt.between) || strings.Count(rest, "<|user|>") != strings.Count(tt.between, "<|user|>") ||
				!strings.Contains(rest, tt.after) {
				t.Errorf("%s, stop %q: want %q, then %q, have %q", s.template, tt.stop, tt.between, tt.after, rest)
			}
		}
	}
}

// A stop id that does not open the next turn is not fed.
func TestReplayOtherTurn(t *testing.T) {
	v := byteVocab()
	r := renderer(t, "GLM-5.3", v)
	c := Conversation{Messages: []Message{{Role: RoleUser, Content: "Hi"}}}
	_, m, _ := turn(t, r, c, Message{Role: RoleAssistant, Content: "Hello"}, "</think>Hello<|user|>")
	c.Messages = append(c.Messages, m, Message{Role: RoleSystem, Content: "S"})
	have := string(v.Raw(nil, render(t, r, c)...))
	if want := "<think></think>Hello<|system|>S<|assistant|><think>"; !strings.HasSuffix(have, want) {
		t.Errorf("want ...%q, have %q", want, have)
	}
}

// A message that was edited, or that another renderer made, is encoded from its
// text; so is one whose reasoning is not shown any more.
func TestReplayNot(t *testing.T) {
	v := bigVocabulary(t)
	call := ToolCall{ID: "c1", Name: "f", Arguments: json.RawMessage(`{"a": 1}`)}
	reply := Message{Role: RoleAssistant, Reasoning: "why", Content: "Hello", ToolCalls: []ToolCall{call}}
	const sampled = "why</think>Hello<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call><|user|>"
	user := Message{Role: RoleUser, Content: "Hi"}
	r := renderer(t, "GLM-4.7", v)
	tests := []struct {
		name    string
		by      *Renderer
		past    Past
		edit    func(*Message)
		replays bool
	}{
		{"unchanged", r, PastKept, func(*Message) {}, true},
		{"another id of a call", r, PastKept, func(m *Message) { m.ToolCalls[0].ID = "c2" }, true},
		{"content", r, PastKept, func(m *Message) { m.Content += "!" }, false},
		{"parts", r, PastKept, func(m *Message) { m.Content, m.Parts = "", []Part{{Type: PartText, Text: "Hello"}} }, false},
		{"reasoning", r, PastKept, func(m *Message) { m.Reasoning = "because" }, false},
		{"name of a call", r, PastKept, func(m *Message) { m.ToolCalls[0].Name = "g" }, false},
		{"arguments in place", r, PastKept, func(m *Message) { m.ToolCalls[0].Arguments[6] = '2' }, false},
		{"call removed", r, PastKept, func(m *Message) { m.ToolCalls = nil }, false},
		{"another renderer", renderer(t, "GLM-4.7", v), PastKept, func(*Message) {}, false},
		{"reasoning cleared", r, PastDefault, func(*Message) {}, false},
	}
	for _, tt := range tests {
		c := Conversation{Messages: []Message{user}, Past: tt.past}
		given := reply
		given.ToolCalls = []ToolCall{{ID: "c1", Name: "f", Arguments: slices.Clone(call.Arguments)}}
		_, m, ids := turn(t, tt.by, c, given, sampled)
		tt.edit(&m)
		c.Messages = append(c.Messages, m, user)

		have := render(t, r, c)
		if replays := contains(have, ids); replays != tt.replays {
			t.Errorf("%s: want replay %t, have %t", tt.name, tt.replays, replays)
		}
		if tt.replays {
			continue
		}
		c.Messages[1].sampled = nil
		if want := render(t, r, c); !slices.Equal(have, want) {
			t.Errorf("%s: want the ids of the text\n%d\nhave\n%d", tt.name, want, have)
		}
	}
}

func contains(ids, part []int32) bool {
	for i := 0; i+len(part) <= len(ids); i++ {
		if slices.Equal(ids[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// Ids that were handed over belong to the message: later changes of the slice do
// not reach it.
func TestReplyCopies(t *testing.T) {
	v := byteVocab()
	r := renderer(t, "GLM-5.3", v)
	c := Conversation{Messages: []Message{{Role: RoleUser, Content: "Hi"}}}
	_, m, ids := turn(t, r, c, Message{Role: RoleAssistant, Content: "Hello"}, "</think>Hello<|user|>")
	c.Messages = append(c.Messages, m, c.Messages[0])
	before := render(t, r, c)
	for i := range ids {
		ids[i] = 0
	}
	if after := render(t, r, c); !slices.Equal(before, after) {
		t.Errorf("want %d, have %d", before, after)
	}
}

// A reply without an answer that is given one as a list was edited too.
func TestReplayPartsAdded(t *testing.T) {
	v := byteVocab()
	r := renderer(t, "GLM-5.3", v)
	c := Conversation{Messages: []Message{{Role: RoleUser, Content: "Hi"}}}
	_, m, _ := turn(t, r, c, Message{Role: RoleAssistant, Reasoning: "why"}, "why</think><|user|>")
	m.Parts = []Part{{Type: PartText, Text: "Hello"}}
	c.Messages = append(c.Messages, m, c.Messages[0])
	if have := string(v.Raw(nil, render(t, r, c)...)); !strings.Contains(have, "why</think>Hello<|user|>") {
		t.Errorf("want the added answer in %q", have)
	}
}
