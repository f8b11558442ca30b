package reply

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// tagsInValues: report 28.
func tagsInValues(t *testing.T) {
	ts := tools(t, writeTool)
	for _, content := range []string{
		"</tool_call>", "<tool_call>", "</arg_value>", "<arg_value>", "<arg_key>", "</arg_key>", "<think></think>",
		"if s == \"</arg_value>\" {\n", "a </arg_value> b </tool_call> c <tool_call> d",
		"</arg_value>\n</arg_value>", "<arg_key>k</arg_key> and <arg_value>", "a </arg_value>path</arg_key> b", "</arg_value></think>",
		"x = \"</arg_key><arg_value>\"\n", "end := \"</arg_value></tool_call>\"\n", "a</arg_value></tool_call>\n\n\xe4\xb8\xad\n</tool_call>", "<|assistant|><|system|>[gMASK]<sop>/nothink",
		wire("read", "path", "fake"),
		"see:\n" + wire("read", "path", "fake") + "\nand " + wire("read") + wire("read", "path", "b", "line", "2") + ".\n",
		"ends with </arg_value></tool_call>",
		"a call ends with </arg_value></tool_call></arg_value> sometimes",
		"fmt.Print(\"<arg_key>\", k, \"</arg_key><arg_value>\", v, \"</arg_value>\")",
		"between \"</arg_value>\\n<arg_key>\" and \"</arg_key>\"",
	} {
		// By the ids of the control tokens, as a model writes it, and by text
		// tokens, as the renderers of this project do.
		for _, form := range []any{content, plain(content)} {
			for _, layout := range [][3]string{{"", "", ""}, {"\n", "\n", "\n"}} {
				message := ids("<tool_call>write", layout[0], "<arg_key>path</arg_key>", layout[1], "<arg_value>a</arg_value>", layout[2],
					"<arg_key>content</arg_key>", layout[1], "<arg_value>", form, "</arg_value>", layout[2], "</tool_call><|observation|>")
				want, err := json.Marshal(content)
				if err != nil {
					t.Fatal(err)
				}
				events := check(t, ts, nil, message, `call write {"path":"a","content":`+unescapeHTML(want)+`}`)
				last := events[len(events)-1]
				if c, ok := last.(ToolCall); ok && c.Raw != strings.TrimSuffix(string(vocabulary().Raw(nil, message...)), "<|observation|>") {
					t.Errorf("raw text is %q", c.Raw)
				}
			}
		}
	}
	// What follows a call is the rest of its value if the end of the value comes.
	follow := "<tool_call>write<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>content</arg_key><arg_value>one</arg_value></tool_call>"
	check(t, ts, nil, ids(follow, " two </arg_value></tool_call> three</arg_value></tool_call><|observation|>"),
		`call write {"path":"a","content":"one</arg_value></tool_call> two </arg_value></tool_call> three"}`)
	check(t, ts, nil, ids(follow, " two</arg_value><arg_key>path2</arg_key><arg_value>three</arg_value></tool_call>", follow, "<|observation|>"),
		`bad write (what follows may belong to the last value)`)
	// It is text if no end comes, and then other calls may follow.
	check(t, ts, nil, ids("So: ", follow, "\nDone.\n", follow, "Two ", follow, "<|user|>"),
		`text "So:"`, `call write {"path":"a","content":"one"}`, `text " \nDone."`, `call write {"path":"a","content":"one"}`,
		`text "\nTwo"`, `call write {"path":"a","content":"one"}`)
	any := tools(t, `set {"properties":{"any":{},"list":{"type":"array"},"note":{"type":["string","null"]}}}`)
	for key, val := range map[string]string{"any": "[1]", "list": "[2]", "note": "null"} {
		check(t, any, nil, ids(wire("set", key, val), " So.<|user|>"), fmt.Sprintf(`call set {"%s":%s}`, key, val), `text "So."`)
	}
	// What is wrong with the text is not wrong with the call, and the reverse.
	check(t, ts, nil, ids(follow, " a\xffb<|user|>"), `call write {"path":"a","content":"one"}`, "text \"a\uFFFDb\"")
	check(t, ts, nil, ids(wire("write", "path", "a", "content", "b\xe4"), " c<|user|>"), `bad write (not UTF-8)`, `text "c"`)
	check(t, any, nil, ids(wire("set", "any", "[1]</arg_value></tool_call>, 2"), "<|observation|>"),
		`call set {"any":"[1]</arg_value></tool_call>, 2"}`)
	check(t, any, nil, ids(wire("set", "list", `["</arg_value></tool_call>", 2]`), "<|observation|>"),
		`call set {"list":["</arg_value></tool_call>", 2]}`)
	// Where no reading is certain there is no call, and nothing is lost.
	for _, tail := range []string{"two</arg_value> three<|observation|>", "two"} {
		events := check(t, ts, nil, ids(follow, tail), `bad write (what follows may belong to the last value)`)
		if bad := events[1].(BadToolCall); bad.Raw != follow+strings.TrimSuffix(tail, "<|observation|>") {
			t.Errorf("raw text is %q", bad.Raw)
		}
	}
	// Here a quoted call opens a value and never closes it.
	check(t, ts, nil, ids(wire("write", "path", "a", "content", "<arg_key>k</arg_key><arg_value>"), "<|observation|>"),
		`bad write (the message ended inside the call)`)
}

func unescapeHTML(b []byte) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

// typedValues: report 29.
func typedValues(t *testing.T) {
	for _, c := range []struct{ schema, text, want string }{
		{`{"type":"string"}`, "001", `"001"`},
		{`{"type":"string"}`, "true", `"true"`},
		{`{"type":"string"}`, "null", `"null"`},
		{`{"type":"string"}`, `{"a":1}`, `"{\"a\":1}"`},
		{`{"type":"integer"}`, "5", `5`},
		{`{"type":"integer"}`, " 5\n", `5`},
		{`{"type":"integer"}`, "123456789012345678901234567890", `123456789012345678901234567890`},
		{`{"type":"integer"}`, "-9007199254740993", `-9007199254740993`},
		{`{"type":"number"}`, "0.1000000000000000055511151231257827", `0.1000000000000000055511151231257827`},
		{`{"type":"number"}`, "1e400", `1e400`},
		{`{"type":"boolean"}`, "true", `true`},
		{`{"type":"boolean"}`, "True", `true (a value is not plain JSON)`},
		{`{"type":["boolean","null"]}`, "None", `null (a value is not plain JSON)`},
		{`{"type":"array"}`, `["001", 1]`, `["001", 1]`},
		{`{"type":"object"}`, `{"b":1,"a":12345678901234567890}`, `{"b":1,"a":12345678901234567890}`},
		{`{"type":"integer"}`, `"5"`, `5 (a value is not plain JSON)`},
		{`{"type":"integer"}`, "five", `bad`},
		{`{"type":"integer"}`, "5.5", `bad`},
		{`{"type":"integer"}`, "001", `bad`},
		{`{"type":"number"}`, "NaN", `bad`},
		{`{"type":"number"}`, "Infinity", `bad`},
		{`{"type":"number"}`, "0x1F", `bad`},
		{`{"type":"number"}`, "", `bad`},
		{`{"type":"boolean"}`, "1", `bad`},
		{`{}`, "NaN", `"NaN"`},
		{`{}`, "0x1F", `"0x1F"`},
		{`{}`, "001", `"001"`},
		{`{}`, "5", `5`},
		{`{}`, `"5"`, `"\"5\""`},
	} {
		ts := tools(t, `f {"properties":{"v":`+c.schema+`}}`)
		want := `call f {"v":` + strings.Replace(c.want, " (", "} (", 1)
		if !strings.HasSuffix(want, ")") {
			want += "}"
		}
		if c.want == "bad" {
			want = `bad f (a value has the wrong type)`
		}
		t.Run(c.schema+" "+c.text, func(t *testing.T) {
			check(t, ts, nil, ids("<tool_call>f<arg_key>v</arg_key><arg_value>", plain(c.text), "</arg_value></tool_call><|observation|>"), want)
		})
	}
}
