package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Want is what Python 3.11 prints: json.dumps(json.loads(s), ensure_ascii=False).
func TestPrintsLikePython(t *testing.T) {
	tests := []struct{ json, want string }{
		{`{"b":1,"a":[true,false,null]}`, `{"b": 1, "a": [true, false, null]}`},
		{`{}`, `{}`},
		{`[ ]`, `[]`},
		{`"é\u00e9\/<&>\u2028"`, "\"éé/<&>\u2028\""},
		{`"\u0000\u001f\u007f\b\f\n\r\t\"\\"`, `"\u0000\u001f` + "\x7f" + `\b\f\n\r\t\"\\"`},
		{`"\ud83d\ude00"`, `"😀"`},
		{`"\ud83d x \ude00"`, "\"\uFFFD x \uFFFD\""}, // Python keeps half pairs and cannot print them
		{`"\ud83d\u0041"`, "\"\uFFFDA\""},
		{"\"a\xffb\"", "\"a\uFFFDb\""},
		{`{"a":1,"b":2,"a":3}`, `{"a": 3, "b": 2}`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`-0`, `0`},
		{`-0.0`, `-0.0`},
		{`1.0`, `1.0`},
		{`1.50`, `1.5`},
		{`1e2`, `100.0`},
		{`1E+2`, `100.0`},
		{`0.0001`, `0.0001`},
		{`0.00001`, `1e-05`},
		{`123456789012345.6`, `123456789012345.6`},
		{`9999999999999998.0`, `9999999999999998.0`},
		{`1e16`, `1e+16`},
		{`1.5e300`, `1.5e+300`},
		{`5e-324`, `5e-324`},
		{`1e-400`, `0.0`},
		{`1e400`, `Infinity`},
		{`-1e400`, `-Infinity`},
		{`0.1e1`, `1.0`},
	}
	for _, tt := range tests {
		v, err := parseJSON([]byte(tt.json))
		if err != nil {
			t.Errorf("%s: %v", tt.json, err)
			continue
		}
		if have := string(appendPython(nil, &v)); have != tt.want {
			t.Errorf("%s: want %s, have %s", tt.json, tt.want, have)
		}
	}
}

// Many keys make the parser change from a search to an index.
func TestManyKeys(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		b.WriteString(`"` + string(rune('a'+i)) + `":1,`)
	}
	v, err := parseJSON([]byte(`{` + b.String() + `"a":2,"z":3}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.keys) != 40 || v.get("a").text != "2" || v.get("z").text != "3" || v.keys[0] != "a" {
		t.Errorf("want 40 keys, a 2, z 3, have %d, %v, %v", len(v.keys), v.get("a"), v.get("z"))
	}
}

func TestParseJSONRefuses(t *testing.T) {
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for _, s := range []string{"", "{", `{"a":}`, "01", "NaN", "'a'", `"\x"`, "1 2", deep} {
		if v, err := parseJSON([]byte(s)); err == nil {
			t.Errorf("%.20q: want an error, have %v", s, v.kind)
		}
	}
}

func TestStrip(t *testing.T) {
	// All that Python 3.11 calls white space.
	const space = "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006" +
		"\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
	if have := strip(space + "a" + space + "b" + space); have != "a"+space+"b" {
		t.Errorf("have %q", have)
	}
	for _, keep := range []string{"\u200b", "\u180e", "\ufeff", "\x00", "\x1b", "\x7f", "\xff"} {
		if have := strip(keep); have != keep {
			t.Errorf("%q: have %q", keep, have)
		}
	}
}

func TestMessageJSON(t *testing.T) {
	tests := []struct {
		json string
		want Message
	}{
		{`{"role":"user","content":"Hi"}`, Message{Role: RoleUser, Content: "Hi"}},
		{`{"role":"assistant","content":null,"tool_calls":[]}`, Message{Role: RoleAssistant, ToolCalls: []ToolCall{}}},
		{`{"role":"assistant","refusal":null}`, Message{Role: RoleAssistant}},
		{`{"role":"assistant","content":"","reasoning_content":""}`, Message{Role: RoleAssistant, reasoned: true}},
		{`{"role":"user","content":["a",{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"x"}}]}`,
			Message{Role: RoleUser, Parts: []Part{{Type: PartText, Text: "a"}, {Type: PartText, Text: "b"}, {Type: "image_url"}}}},
		{`{"role":"tool","tool_call_id":"c","content":[{"tool_call_id":"d","output":[{"type":"tool_reference","name":"n"}]},{"output":"t"}]}`,
			Message{Role: RoleTool, ToolCallID: "c", Parts: []Part{
				{Type: PartOutput, ToolCallID: "d", Parts: []Part{{Type: PartToolReference, Name: "n"}}},
				{Type: PartOutput, Text: "t"}}}},
		{`{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"name":"g","arguments":{"b":2}}]}`,
			Message{Role: RoleAssistant, ToolCalls: []ToolCall{
				{ID: "c", Name: "f", Arguments: json.RawMessage(`"{\"a\":1}"`)},
				{Name: "g", Arguments: json.RawMessage(`{"b":2}`)}}}},
	}
	same := cmp.Options{cmp.AllowUnexported(Message{}), cmpopts.IgnoreFields(Message{}, "sampled"), cmpopts.EquateEmpty()}
	for _, tt := range tests {
		var have Message
		if err := json.Unmarshal([]byte(tt.json), &have); err != nil {
			t.Errorf("%s: %v", tt.json, err)
			continue
		}
		if d := cmp.Diff(tt.want, have, same); d != "" {
			t.Errorf("%s: want, have:\n%s", tt.json, d)
		}
		// What is written reads as the same message, arguments in a string.
		data, err := json.Marshal(have)
		if err != nil {
			t.Errorf("%s: %v", tt.json, err)
			continue
		}
		var again Message
		if err := json.Unmarshal(data, &again); err != nil {
			t.Errorf("%s: %v", data, err)
			continue
		}
		asObject := cmp.Transformer("object", func(raw json.RawMessage) string {
			v, reason := arguments(raw)
			return reason + string(appendPython(nil, &v))
		})
		if d := cmp.Diff(have, again, same, asObject); d != "" {
			t.Errorf("%s written as %s: want, have:\n%s", tt.json, data, d)
		}
	}
}

// What is wrong with a message that is read is said like everything else, with
// its place and without its text.
func TestMessageJSONErrors(t *testing.T) {
	tests := []struct{ json, field, reason string }{
		{`7`, "", "want an object, have number"},
		{`{"role":7}`, "role", "want a string, have number"},
		{`{"reasoning_content":["secret"]}`, "reasoning_content", "want a string, have array"},
		{`{"content":1}`, "content", "want a string, a list or null"},
		{`{"content":{"a":"secret"}}`, "content", "want a string, a list or null"},
		{`{"content":["a",1]}`, "content[1]", "want an object, have number"},
		{`{"content":[{"type":"text","text":12345}]}`, "content[0].text", "want a string, have number"},
		{`{"content":[{"output":7}]}`, "content[0].output", "want a string, a list or null"},
		{`{"content":[{"output":["a",{"text":true}]}]}`, "content[0].output[1].text", "want a string, have bool"},
		{`{"tool_calls":{}}`, "tool_calls", "want a list, have object"},
		{`{"tool_calls":[{"name":"f"},"secret"]}`, "tool_calls[1]", "want an object, have string"},
		{`{"tool_calls":[{"function":{"name":5}}]}`, "tool_calls[0].function.name", "want a string, have number"},
	}
	for _, tt := range tests {
		var m Message
		err := json.Unmarshal([]byte(tt.json), &m)
		var re *RequestError
		if !errors.As(err, &re) || !errors.Is(err, ErrInvalidRequest) || re.Field != tt.field || re.Reason != tt.reason {
			t.Errorf("%s: want %q: %s, have %v", tt.json, tt.field, tt.reason, err)
		}
	}
	// Called by hand, the methods see what encoding/json would have refused.
	for _, junk := range []string{"", " ", "{", `"`, "]"} {
		for _, v := range []json.Unmarshaler{&Message{}, &Part{}, &ToolCall{}, &Tool{}} {
			err := v.UnmarshalJSON([]byte(junk))
			if want := "chat: invalid request: not valid JSON"; err == nil || err.Error() != want {
				t.Errorf("%T, %q: want %s, have %v", v, junk, want, err)
			}
		}
	}
}

// A tool that was read is printed as it was read; one that was changed, from its
// fields.
func TestToolSource(t *testing.T) {
	const raw = `{"function": {"strict": true, "parameters": {"b": 1e2, "a": 2}, "name": "f", "more": 1}, "type": "function"}`
	var tool Tool
	if err := json.Unmarshal([]byte(raw), &tool); err != nil {
		t.Fatal(err)
	}
	if string(tool.Parameters) != `{"b": 1e2, "a": 2}` || !tool.Strict || tool.Name != "f" {
		t.Errorf("read %+v", tool)
	}
	text := func(name string, tool Tool) string {
		t.Helper()
		tmpl, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tmpl.Text(offering(tool))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	changed := tool
	changed.Description = "d"
	hidden := changed
	hidden.Defer = true
	tests := []struct {
		template string
		tool     Tool
		want     string
	}{
		{"GLM-4.7", tool, `{"function": {"strict": true, "parameters": {"b": 100.0, "a": 2}, "name": "f", "more": 1}, "type": "function"}`},
		{"GLM-5.2", tool, `{"parameters": {"b": 100.0, "a": 2}, "name": "f", "more": 1}`},
		{"GLM-4.7", changed, `{"type": "function", "function": {"name": "f", "description": "d", "strict": true, "parameters": {"b": 100.0, "a": 2}}}`},
		{"GLM-5.3", changed, `{"name": "f", "description": "d", "parameters": {"b": 100.0, "a": 2}}`},
		{"GLM-5", hidden, `"parameters": {"b": 100.0, "a": 2}, "defer_loading": true}}`},
		{"GLM-5.1", hidden, "<tools>\n</tools>"},
		{"GLM-5.3", Tool{Name: "g"}, "<tools>\n{\"name\": \"g\"}\n</tools>"},
	}
	for _, tt := range tests {
		if have := text(tt.template, tt.tool); !strings.Contains(have, tt.want) {
			t.Errorf("%s: want %s in %s", tt.template, tt.want, have)
		}
	}
	for _, same := range []Tool{tool, changed, hidden, {Name: "g"}} {
		data, err := json.Marshal(same)
		if err != nil {
			t.Error(err)
			continue
		}
		var again Tool
		if err := json.Unmarshal(data, &again); err != nil {
			t.Errorf("%s: %v", data, err)
			continue
		}
		compact := cmp.Transformer("compact", func(raw json.RawMessage) string { return strings.ReplaceAll(string(raw), " ", "") })
		if d := cmp.Diff(same, again, cmpopts.IgnoreUnexported(Tool{}), compact); d != "" {
			t.Errorf("%s: want, have:\n%s", data, d)
		}
	}
}

func TestToolJSONErrors(t *testing.T) {
	tests := []struct{ json, field string }{
		{`{"type":"function","function":{"description":"d"}}`, "function.name"},
		{`{"type":"function","function":{"name":7}}`, "function.name"},
		{`{"name":""}`, "name"},
		{`{"type":"function","function":[]}`, "function"},
		{`{"type":"web_search"}`, "type"},
		{`[]`, "function"},
		{`{"name":"f","parameters":[]}`, "parameters"},
		{`{"function":{"name":"f","parameters":"{}"}}`, "function.parameters"},
	}
	for _, tt := range tests {
		var tool Tool
		err := json.Unmarshal([]byte(tt.json), &tool)
		var re *RequestError
		if !errors.As(err, &re) || re.Field != tt.field || !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%s: want a RequestError at %s, have %v", tt.json, tt.field, err)
		}
	}
	for _, none := range []string{`{"name":"f","parameters":null}`, `{"name":"f"}`} {
		var tool Tool
		if err := json.Unmarshal([]byte(none), &tool); err != nil || tool.Parameters != nil {
			t.Errorf("%s: want no parameters, have %s, %v", none, tool.Parameters, err)
		}
	}
}
