package reply

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzSchema declares a tool with any name and any schema, as a client may, and
// reads a call of it with any value, as a model may: a typed error with its
// place, or a parser whose every event is a call with an object for arguments, or
// the raw text of one that could not be read.
func FuzzSchema(f *testing.F) {
	for _, c := range [][3]string{
		{"read", `{"type":"object","properties":{"path":{"type":"string"},"line":{"type":["integer","null"]}}}`, "12"},
		{"set", `{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"$ref":"#/$defs/b"}}}`, "null"},
		{"any", `{"anyOf":[{"properties":{"a":{"enum":[1,"1",null]}}},{"additionalProperties":false}]}`, "1"},
		{"deep", `{"properties":{"a":{"allOf":[{"type":"array","items":{"oneOf":[{"const":{}},{"type":"number"}]}}]}}}`, "[{}, 2.50]"},
		{"no", `[]`, ""}, {"bad", `{"type":`, "x"}, {"", `{}`, "{}"}, {"wide", `{"properties":{"a":{"type":"Dict"}}}`, `{"k": "</arg_value>"}`},
	} {
		f.Add(c[0], []byte(c[1]), "a", c[2])
	}
	f.Fuzz(func(t *testing.T, name string, schema []byte, key, value string) {
		tools, err := NewTools(Tool{Name: name, Parameters: json.RawMessage(schema)})
		if err != nil {
			if e, ok := err.(*SchemaError); !ok || e.Want == "" || e.Have == "" || e.Tool != 0 {
				t.Fatalf("%#v", err)
			}
			return
		}
		if len(bytes.Trim(schema, " \t\r\n")) > 0 && !json.Valid(schema) {
			t.Fatalf("%q was taken for a schema", schema)
		}
		p, err := New(vocabulary(), tools, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := "<tool_call>" + name + "<arg_key>" + key + "</arg_key><arg_value>" + value + "</arg_value></tool_call>"
		ended := 0
		for _, e := range p.Finish(p.Append(nil, vocabulary().EncodeWithAdded(nil, text)...)) {
			switch e := e.(type) {
			case ToolCall:
				ended++
				var object map[string]json.RawMessage
				if err := json.Unmarshal(e.Arguments, &object); err != nil || object == nil || !utf8.Valid(e.Arguments) {
					t.Fatalf("arguments %q: %v", e.Arguments, err)
				}
				if e.Name != name {
					t.Fatalf("%q was called, %q declared", e.Name, name)
				}
			case BadToolCall:
				ended++
				if e.Err == nil || e.Raw == "" {
					t.Fatalf("%+v", e)
				}
			}
		}
		if len(text) < 1000 && ended == 0 && utf8.ValidString(text) {
			t.Fatalf("a call without an end: %q", text)
		}
	})
}
