package glm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

var writeTool = Tool{Name: "write the file", Parameters: []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)}

// conversations end in every way a prompt can end.
func conversations() map[string][]Message {
	call := Call{ID: "1", Name: "read", Arguments: []byte(`{"path":"a"}`)}
	return map[string][]Message{
		"user":    {user("read it")},
		"system":  {{Role: System, Content: "be brief"}, user("read it")},
		"result":  {user("read it"), {Role: Assistant, Reasoning: "hm", ToolCalls: []Call{call}}, {Role: ToolRole, ToolCallID: "1", Content: "line\n"}},
		"history": {user("hello"), {Role: Assistant, Reasoning: "a greeting", Content: "hello"}, user("read it")},
		"answer":  {user("hello"), {Role: Assistant, Content: "hello"}},
		"alone":   {{Role: Assistant, Content: "hello"}},
	}
}

var efforts = []Effort{EffortDefault, EffortNone, EffortLow, EffortMedium, EffortHigh, EffortMax}

// A forced call begins with the ids that the template prints before and in such
// a call when it is history.
func TestForcedCall(t *testing.T) {
	eachTemplate(t, func(t *testing.T, m *Model) {
		thinkEnd, _ := m.tokens.ID("</think>")
		open, _ := m.tokens.ID("<tool_call>")
		for name, messages := range conversations() {
			for _, effort := range efforts {
				free := Request{Messages: messages, Tools: []Tool{readTool, writeTool}, Effort: effort}
				plain, err := m.prompt(&free)
				if err != nil {
					t.Fatal(err)
				}
				for _, choice := range []ToolChoice{{Mode: ToolRequired}, {Mode: ToolNamed, Name: "read"}, {Mode: ToolNamed, Name: "write the file"}} {
					where := fmt.Sprintf("%s, effort %q, %+v", name, effort, choice)
					r := free
					r.ToolChoice = choice
					p, err := m.prompt(&r)
					if err != nil {
						t.Fatalf("%s: %v", where, err)
					}
					forced := p.ids[len(p.ids)-p.forced:]
					if !slices.Equal(p.given(), plain.ids) || p.forced == 0 {
						t.Fatalf("%s: the prompt itself is changed", where)
					}
					// As history the same reply reads: generation prompt without
					// what it opened, no reasoning, and the call.
					history := r
					history.ToolChoice = ToolChoice{}
					called := choice.Name
					if called == "" {
						called = "other"
					}
					history.Messages = append(slices.Clone(messages), Message{Role: Assistant, ToolCalls: []Call{{Name: called}}})
					h, err := m.prompt(&history)
					if err != nil {
						t.Fatal(err)
					}
					reply := h.ids[plain.chat.Generation:h.chat.Generation]
					at := slices.Index(reply, open)
					want := slices.Clone(reply[:at+1])
					if choice.Mode == ToolNamed {
						end := slices.Index(reply, mustID(m, "</tool_call>"))
						want = slices.Clone(reply[:end])
					}
					if plain.chat.InReasoning {
						// The prompt has opened the reasoning, the call closes it.
						if forced[0] != thinkEnd {
							t.Fatalf("%s: forced %q does not end the reasoning", where, m.tokens.Decode(forced))
						}
						if before := want[slices.Index(want, thinkEnd):]; !slices.Equal(forced, before) {
							t.Errorf("%s: forced %q, the template prints %q", where, m.tokens.Decode(forced), m.tokens.Decode(before))
						}
						continue
					}
					if have := slices.Concat(plain.ids[plain.chat.Generation:], forced); !slices.Equal(have, want) {
						t.Errorf("%s: the reply begins %q, the template prints %q", where, m.tokens.Decode(have), m.tokens.Decode(want))
					}
				}
			}
		}
	})
}

func mustID(m *Model, added string) int32 {
	id, ok := m.tokens.ID(added)
	if !ok {
		panic(added)
	}
	return id
}

// A named call is made, in history it goes on from what was sampled, and the
// model cannot answer otherwise.
func TestToolChoice(t *testing.T) {
	eachTemplate(t, func(t *testing.T, m *Model) {
		hands := animate(m)
		p := openPool(t, m, PoolConfig{Tokens: fixtureContext})
		line := ""
		if strings.HasPrefix(m.Template(), "GLM-4.5") || strings.HasPrefix(m.Template(), "GLM-4.6") {
			line = "\n"
		}
		rest := "<arg_key>path</arg_key>" + line + "<arg_value>a\nb</arg_value>" + line + "</tool_call><|observation|>"
		for _, effort := range []Effort{EffortDefault, EffortNone} {
			for _, c := range []struct {
				choice ToolChoice
				said   string
			}{
				{ToolChoice{Mode: ToolNamed, Name: "read"}, rest},
				{ToolChoice{Mode: ToolRequired}, "read" + line + rest},
				{ToolChoice{Mode: ToolRequired}, "write the file" + line + rest},
			} {
				name := c.choice.Name
				if name == "" {
					name, _, _ = strings.Cut(strings.ReplaceAll(c.said, "\n", "<"), "<")
				}
				r := Request{Messages: []Message{user("go")}, Tools: []Tool{readTool, writeTool}, Effort: effort, ToolChoice: c.choice, MaxTokens: 90}
				said := speech(m, c.said)
				hands.say(said...)
				s := openSession(t, p, "")
				var deltas []ToolCallDelta
				var call ToolCall
				var finish Finish
				for ev, err := range s.Generate(t.Context(), r) {
					if err != nil {
						t.Fatal(err)
					}
					switch ev := ev.(type) {
					case ToolCallDelta:
						deltas = append(deltas, ev)
					case ToolCall:
						call = ev
					case Finish:
						finish = ev
					default:
						t.Errorf("%+v", ev)
					}
				}
				if call.Name != name || string(call.Arguments) != `{"path":"a\nb"}` || call.ID == "" || finish.Reason != FinishToolCalls {
					t.Errorf("%v: call %+v, finish %+v", c.choice, call, finish)
				}
				if len(deltas) == 0 || deltas[0].Name != name {
					t.Errorf("%v: deltas %+v", c.choice, deltas)
				}
				n, err := m.Count(r)
				if err != nil || finish.Usage != (Usage{Prompt: n, Output: len(said)}) {
					t.Errorf("%v: usage %+v, count %d, %v", c.choice, finish.Usage, n, err)
				}
				forced, err := m.prompt(&r)
				if err != nil {
					t.Fatal(err)
				}
				// Forced ids are part of what is replayed.
				r.Messages = append(r.Messages, finish.Message, Message{Role: ToolRole, Content: "x", ToolCallID: call.ID})
				r.ToolChoice = ToolChoice{}
				next, err := m.prompt(&r)
				if err != nil {
					t.Fatal(err)
				}
				if want := slices.Concat(forced.ids, said); common(want, next.ids) != len(want) {
					t.Errorf("%v: %q does not go on from %q", c.choice, m.tokens.Decode(next.ids[len(forced.given()):]), m.tokens.Decode(want[len(forced.given()):]))
				}
			}
		}
		// Without forcing, tools that are shown may be called; those that are not,
		// not even if the model writes a call.
		for _, mode := range []ToolMode{ToolAuto, ToolNone} {
			r := Request{Messages: []Message{user("go")}, Tools: []Tool{readTool}, ToolChoice: ToolChoice{Mode: mode}, MaxTokens: 90}
			hands.say(speech(m, "</think><tool_call>read"+line+rest)...)
			reply, err := Collect(p.Generate(t.Context(), "", r))
			if err != nil {
				t.Fatal(err)
			}
			bare := r
			bare.Tools, bare.ToolChoice = nil, ToolChoice{}
			with, _ := m.Count(r)
			without, err := m.Count(bare)
			if err != nil {
				t.Fatal(err)
			}
			switch mode {
			case ToolAuto:
				if len(reply.ToolCalls) != 1 || with == without {
					t.Errorf("auto: %+v, %d ids with tools, %d without", reply, with, without)
				}
			case ToolNone:
				if len(reply.ToolCalls) != 0 || len(reply.BadToolCalls) != 1 || with != without || reply.Usage.Prompt != without {
					t.Errorf("none: %+v, %d ids with tools, %d without", reply, with, without)
				}
			}
		}
	})
}

// Count is what a generation feeds, for everything that changes a prompt.
func TestCount(t *testing.T) {
	eachTemplate(t, func(t *testing.T, m *Model) {
		p := openPool(t, m, PoolConfig{Tokens: fixtureContext})
		check := func(r Request) {
			t.Helper()
			n, err := m.Count(r)
			if err != nil {
				t.Fatal(err)
			}
			r.MaxTokens = 1
			for _, tenant := range []string{"", "warm"} {
				reply, err := Collect(p.Generate(t.Context(), tenant, r))
				if err != nil {
					t.Fatal(err)
				}
				if reply.Usage.Prompt != n || reply.Usage.Output != 1 || reply.Usage.Cached >= n || reply.Usage.Cached%pageSize != 0 {
					t.Errorf("%+v, counted %d", reply.Usage, n)
				}
			}
		}
		for _, messages := range conversations() {
			check(Request{Messages: messages})
		}
		messages := conversations()["result"]
		for _, effort := range efforts {
			check(Request{Messages: messages, Tools: []Tool{readTool, writeTool}, Effort: effort})
		}
		for _, choice := range []ToolChoice{{}, {Mode: ToolNone}, {Mode: ToolRequired}, {Mode: ToolNamed, Name: "write the file"}} {
			check(Request{Messages: messages, Tools: []Tool{readTool, writeTool}, ToolChoice: choice})
		}
		check(Request{Tokens: ids(77)})
		// What does not change the prompt does not change the count.
		a, err := m.Count(Request{Messages: messages})
		b, err2 := m.Count(Request{Messages: messages, Stop: []string{"x"}, MaxTokens: 77, Sampling: &Sampling{Temperature: 1}})
		if a != b || errors.Join(err, err2) != nil {
			t.Errorf("%d and %d ids, %v, %v", a, b, err, err2)
		}
	})
}

// What decides the bytes of KV rows has another identity if it is another.
func TestIdentity(t *testing.T) {
	a, b := openFixture(t, "GLM-5"), openFixture(t, "GLM-4.5")
	if a.identity != b.identity || a.identity.tokenizer == "" {
		t.Errorf("one checkpoint twice: %+v, %+v", a.identity, b.identity)
	}
	files := fixtureFiles()
	text := bytes.Replace(files["tokenizer.json"].Data, []byte(`"content":"[MASK]"`), []byte(`"content":"[MUSK]"`), 1)
	files["tokenizer.json"] = &fstest.MapFile{Data: text, Mode: 0o600}
	if c := openFiles(t, files, Config{Template: "GLM-5"}); c.identity.tokenizer == a.identity.tokenizer || c.identity.weights != a.identity.weights {
		t.Errorf("another tokenizer: %+v, %+v", c.identity, a.identity)
	}
	delete(files, "tokenizer.json")
	if c := openFiles(t, files, Config{}); c.identity.tokenizer != "" {
		t.Errorf("no tokenizer: %+v", c.identity)
	}
	if c := openFiles(t, fixtureFiles(), Config{Template: "GLM-5", LatentEps: 1e-6}); c.identity.eps == a.identity.eps {
		t.Errorf("another epsilon: %+v", c.identity)
	}
}

// A checkpoint's own template file decides, and a name overrides it.
func TestTemplateChoice(t *testing.T) {
	for _, name := range chat.Names() {
		if m := openFixture(t, strings.ToUpper(name)); m.Template() != name {
			t.Errorf("template %q, asked for %q", m.Template(), name)
		}
	}
	m := openFiles(t, fixtureFiles(), Config{})
	if m.Template() != "" || m.Tokenizer() == nil {
		t.Errorf("without a template file: %q", m.Template())
	}
	if _, err := m.Count(Request{Messages: []Message{user("x")}}); !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("messages without a template: %v", err)
	}
}
