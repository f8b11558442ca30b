package reply

import (
	"errors"
	"strings"
	"testing"
)

// TestTypes reads one value under one schema.
func TestTypes(t *testing.T) {
	for _, group := range []struct {
		schema string
		cases  []string // text => JSON, or text => bad
	}{
		{`{"type":"string","enum":["1","2"]}`, []string{`1 => "1"`, `3 => "3"`}},
		{`{"enum":["1","2"]}`, []string{`1 => "1"`, `3 => "3"`}},
		{`{"enum":[1,2]}`, []string{`1 => 1`, `3 => 3`, `one => bad`}},
		{`{"enum":["1",1]}`, []string{`1 => 1`}},
		{`{"enum":["a",null]}`, []string{`a => "a"`, `null => null`, `nul => "nul"`}},
		{`{"enum":[true,"no"]}`, []string{`true => true`, `false => false`, `no => "no"`}},
		{`{"type":["string","integer"],"enum":[1,2]}`, []string{`1 => 1`}},
		{`{"anyOf":[{"enum":["1","auto"]},{"type":"integer"}]}`, []string{`1 => "1"`, `2 => 2`, `auto => "auto"`}},
		{`{"enum":["x",[1],{"a":1}]}`, []string{`[1] => [1]`, `{} => {}`, `x => "x"`, `1 => "1"`}},
		{`{"const":"7"}`, []string{`7 => "7"`}},
		{`{"const":7}`, []string{`7 => 7`, `x => bad`}},
		{`{"const":null}`, []string{`null => null`}},
		{`{"type":"string","nullable":true}`, []string{`null => null`, `x => "x"`, `nullx => "nullx"`, ` => ""`}},
		{`{"type":["null","integer"]}`, []string{`null => null`, `5 => 5`, `5.0 => 5.0`, `5.5 => bad`, `1e2 => 1e2`, `15e-1 => bad`, `150e-1 => 150e-1`, `-0 => -0`, `0e-9 => 0e-9`, `1e99999999999999999999 => 1e99999999999999999999`}},
		{`{"oneOf":[{"type":"array"},{"type":"string"}]}`, []string{`[1] => [1]`, `[1 => "[1"`, `{} => "{}"`, `"x" => "\"x\""`}},
		{`{"anyOf":[{"type":"string"},{"type":"object"}]}`, []string{`{"a":1} => {"a":1}`, `{a} => "{a}"`}},
		{`{"anyOf":[{"type":"boolean"},{"type":"string"}]}`, []string{`true => true`, `True => "True"`, `falsey => "falsey"`, `tru => "tru"`}},
		{`{"allOf":[{"type":["string","integer"]},{"type":["integer","null"]}]}`, []string{`5 => 5`, `x => bad`}},
		{`{"allOf":[{"type":"string"},{"minLength":1}]}`, []string{`5 => "5"`}},
		{`{"allOf":[{"type":"string"},{"type":"integer"}]}`, []string{`5 => 5`, `x => "x"`}}, // nothing sensible
		{`{"$ref":"#/$defs/Name"}`, []string{`5 => "5"`}},
		{`{"$ref":"#/definitions/a~1b~0"}`, []string{`5 => 5`, `x => bad`}},
		{`{"$ref":"#/$defs/Loop"}`, []string{`5 => 5`, `x => "x"`}},
		{`{"$ref":"#/$defs/List/0"}`, []string{`true => true`, `x => bad`}},
		{`{"$ref":"#/$defs/Chain"}`, []string{`5 => "5"`}},
		{`{"$ref":"#/$defs/Tree"}`, []string{`{} => {}`, `x => bad`}},
		{`{"$ref":"https://example.com/schema.json"}`, []string{`5 => 5`, `x => "x"`}},
		{`{"$ref":"#anchor"}`, []string{`5 => 5`}},
		{`{"properties":{"a":{}}}`, []string{`{"a":1} => {"a":1}`, `x => bad`}},
		{`{"items":{}}`, []string{`[] => []`, `x => bad`}},
		{`{"pattern":"^\\d+$"}`, []string{`5 => "5"`}},
		{`{"minimum":1}`, []string{`0.5 => 0.5`, `x => bad`}},
		{`{"type":"INTEGER"}`, []string{`5 => 5`, `x => bad`}},
		{`{"type":"dict"}`, []string{`{} => {}`, `[] => bad`}},
		{`{"type":"tuple"}`, []string{`[1] => [1]`}},
		{`{"type":"float"}`, []string{`5 => 5`, `.5 => bad`, `5. => bad`, `+5 => bad`, `1_000 => bad`}},
		{`{"type":"any"}`, []string{`5 => 5`, `x => "x"`, `001 => "001"`, `[1, => "[1,"`, `- => "-"`, `-x => "-x"`}},
		{`{"type":["string","weird"]}`, []string{`5 => 5`}},
		{`{"type":7}`, []string{`5 => 5`, `x => "x"`}},
		{`true`, []string{`5 => 5`, `x => "x"`}},
		{`{"type":"boolean"}`, []string{`false => false`, `FALSE => false`, `null => null`, `"true" => true`, `yes => bad`}},
		{`{"type":"object"}`, []string{`{\"a\": \"b\\n\"} => {"a": "b\n"}`, `{'a': 1} => bad`, `{"a":1} x => bad`, `{\"a\": \"\ud800\"} => bad`}},
	} {
		ts := tools(t, `f {"$defs":{"Name":{"type":"string"},"Loop":{"$ref":"#/$defs/Loop"},"List":[{"type":"boolean"}],"Chain":{"$ref":"#/$defs/Name","description":"x"},`+
			`"Tree":{"type":"object","properties":{"left":{"$ref":"#/$defs/Tree"}}}},"definitions":{"a/b~":{"type":"integer"}},"properties":{"v":`+group.schema+`}}`)
		for _, c := range group.cases {
			text, want, _ := strings.Cut(c, " => ")
			events := parse(t, ts, nil, ids("<tool_call>f<arg_key>v</arg_key><arg_value>", plain(text), "</arg_value></tool_call><|observation|>"), 1)
			have := "bad"
			if call, ok := events[len(events)-1].(ToolCall); ok {
				have = strings.TrimSuffix(strings.TrimPrefix(string(call.Arguments), `{"v":`), "}")
			} else if bad := events[len(events)-1].(BadToolCall); !errors.Is(bad.Err, BadValue) {
				t.Errorf("%s, %s: fault %v", group.schema, text, bad.Err.Fault)
			}
			if have != want {
				t.Errorf("%s, %s: want %s, have %s", group.schema, text, want, have)
			}
		}
	}
}

// TestParameters: which parameters there are, of what type, and which must be
// given.
func TestParameters(t *testing.T) {
	for _, c := range []struct{ schema, args, want string }{
		{``, "x 5", `call f {"x":5}`},
		{`null`, "x 5", `call f {"x":5}`},
		{`{}`, "x 5", `call f {"x":5}`},
		{`{"properties":{"a":{"type":"string"}}}`, "x 5", `call f {"x":5}`},
		{`{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, "x 5", `bad f (no such parameter)`},
		{`{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, "a 5", `call f {"a":"5"}`},
		{`{"properties":{},"additionalProperties":{"type":"string"}}`, "x 5", `call f {"x":"5"}`},
		{`{"additionalProperties":false,"patternProperties":{"^x":{"type":"string"}}}`, "x 5", `call f {"x":5}`},
		{`{"allOf":[{"properties":{"x":{"type":"string"}}}]}`, "x 5", `call f {"x":"5"}`},
		{`{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"x":{"type":"string"}}}}}`, "x 5", `call f {"x":"5"}`},
		{`{"anyOf":[{"properties":{"x":{"type":"integer"}}},{"properties":{"x":{"type":"null"}}}]}`, "x null", `call f {"x":null}`},
		{`{"$ref":"#"}`, "x 5", `call f {"x":5}`},
		// null for what is optional, but not for what is a string.
		{`{"properties":{"x":{"type":"integer"}}}`, "x null", `call f {"x":null}`},
		{`{"properties":{"x":{"type":"integer"}},"required":["x"]}`, "x null", `bad f (a value has the wrong type)`},
		{`{"properties":{"x":{"type":"string"}}}`, "x null", `call f {"x":"null"}`},
		// Blanks around a parameter are not part of it, unless it is listed so.
		{`{"properties":{"x":{"type":"string"}}}`, "\nx 5", `call f {"x":"5"}`},
		{`{"properties":{"\nx":{"type":"string"}}}`, "\nx 5", `call f {"\nx":"5"}`},
		{`{"properties":{"x":{}}}`, `"x" 5`, `bad f (not the name of a parameter)`},
	} {
		key, val, _ := strings.Cut(c.args, " ")
		check(t, tools(t, "f "+c.schema), nil, ids(wire("f", key, val), "<|observation|>"), c.want)
	}
	check(t, tools(t, "f"), nil, ids(wire("f", "a", "1", "b", "2", "a", "3"), "<|observation|>"), `bad f (a parameter has two values)`)

	// The end of a call is supplied only if nothing required is missing.
	unclosed := ids("<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value><|observation|>")
	check(t, tools(t, `f {"allOf":[{"required":["a"]}]}`), nil, unclosed, `call f {"a":1} (</tool_call> is missing)`)
	check(t, tools(t, `f {"allOf":[{"required":["b"]}]}`), nil, unclosed, `bad f (the message ended inside the call)`)
	check(t, tools(t, `f {"anyOf":[{"required":["b"]},{}]}`), nil, unclosed, `call f {"a":1} (</tool_call> is missing)`)
}

func TestSchemaErrors(t *testing.T) {
	for _, c := range []struct {
		list []Tool
		want string
	}{
		{[]Tool{{Name: ""}}, "reply: tool 0: name: want a name, have none"},
		{[]Tool{{Name: "a"}, {Name: "a"}}, "reply: tool 1: name: want a new name, have that of an earlier tool"},
		{[]Tool{{Name: "a"}, {"b", []byte(`{"type":`)}}, "reply: tool 1: parameters: want a JSON object, have no JSON"},
		{[]Tool{{"b", []byte(`{} {}`)}}, "reply: tool 0: parameters: want a JSON object, have no JSON"},
		{[]Tool{{"b", []byte(`{}}`)}}, "reply: tool 0: parameters: want a JSON object, have no JSON"},
		{[]Tool{{"b", []byte(`[1]`)}}, "reply: tool 0: parameters: want a JSON object, have an array"},
		{[]Tool{{"b", []byte(`"x"`)}}, "reply: tool 0: parameters: want a JSON object, have a string"},
		{[]Tool{{"b", []byte(`{"allOf":[{"properties":3}]}`)}}, "reply: tool 0: /allOf/0/properties: want an object, have a number"},
		{[]Tool{{"b", []byte(`{"properties":{"a/b":{"anyOf":[{},{"$ref":"#/$defs/X"}]}}}`)}},
			"reply: tool 0: /properties/a~1b/anyOf/1/$ref: want a reference to a place in the schema, have one to nowhere"},
	} {
		_, err := NewTools(c.list...)
		var detail *SchemaError
		if err == nil || err.Error() != c.want || !errors.As(err, &detail) {
			t.Errorf("want %q\nhave %v", c.want, err)
		}
	}
}

// TestErrorTexts: the texts of errors hold nothing of what the model wrote.
func TestErrorTexts(t *testing.T) {
	ts := tools(t, `secretTool {"properties":{"secretKey":{"type":"integer"}},"additionalProperties":false}`)
	for _, body := range []string{
		"secretTool<arg_key>secretKey</arg_key><arg_value>secretValue</arg_value>", "secretOther", "secretTool<arg_key>secretly</arg_key><arg_value>1</arg_value>",
		"secretTool</arg_value>", `{"name":"secretTool","arguments":{"secretKey":"secret"}}`, `{"secret`, "secretTool<arg_key>\"secret\"</arg_key>",
	} {
		events := parse(t, ts, nil, ids("<tool_call>", body, "</tool_call><|observation|>"), 0)
		bad, ok := events[len(events)-1].(BadToolCall)
		if !ok {
			t.Fatalf("%s: %s", body, show(t, events))
		}
		if text := bad.Err.Error(); strings.Contains(text, "secret") || !strings.HasPrefix(text, "reply: tool call 0") {
			t.Errorf("error text %q", text)
		}
		if !errors.Is(bad.Err, bad.Err.Fault) || errors.Is(bad.Err, Unfinished) {
			t.Errorf("%v is not its own fault", bad.Err)
		}
	}
}

func TestVocabularyError(t *testing.T) {
	added := bytesOnly(t, nil)
	_, err := New(added, nil, nil)
	var detail *VocabularyError
	if !errors.As(err, &detail) || detail.Missing != "<think>" {
		t.Errorf("have %v", err)
	}
}

func TestFaultTexts(t *testing.T) {
	seen := map[string]bool{}
	for f := Sound; int(f) < len(faultText); f++ {
		if f.String() == "" || seen[f.String()] {
			t.Errorf("fault %d has the text %q", f, f)
		}
		seen[f.String()] = true
	}
	if have := Fault(200).Error(); have != "fault 200" {
		t.Errorf("have %q", have)
	}
}
