package chat

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"
)

// FuzzConversation renders whatever JSON is a conversation, by every template:
// no panic, errors that say what is wrong, ids that spell the text.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"none"}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},"b"]},
		{"role":"assistant","content":"<think>x</think>y","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":[1,2.50,{}]}"}}]},
		{"role":"tool","tool_call_id":"1","content":[{"type":"tool_reference","name":"g"}]},
		{"role":"tool","content":[{"output":"o","tool_call_id":"2"},{"output":["p"]}]}],
		"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"name":"g","defer_loading":true}],
		"clear_thinking":false}`))
	f.Add([]byte(`{"messages":[{"role":"developer","content":null},{"role":"assistant","reasoning_content":""}],"tools":[{"name":"\ud83d"}]}`))
	v := byteVocab()
	f.Fuzz(func(t *testing.T, data []byte) {
		var in goldenInput
		if err := json.Unmarshal(data, &in); err != nil {
			return
		}
		c := in.conversation()
		for _, name := range Names() {
			r := renderer(t, name, v)
			text, err := r.template.Text(c)
			p, err2 := r.Render(c)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%s: text says %v, ids say %v", name, err, err2)
			}
			if err != nil {
				if re := (*RequestError)(nil); !errors.As(err, &re) || re.Field == "" || re.Reason == "" {
					t.Fatalf("%s: want a RequestError, have %v", name, err)
				}
				continue
			}
			if have := string(v.Raw(nil, p.IDs...)); have != text {
				t.Fatalf("%s: ids spell\n%q, want\n%q", name, have, text)
			}
			if p.Generation <= 0 || p.Generation >= len(p.IDs) || p.IDs[p.Generation] != r.controls[ctlAssistant] {
				t.Fatalf("%s: no generation prompt at %d of %d", name, p.Generation, len(p.IDs))
			}
		}
	})
}

// FuzzUntrusted puts any text in every place where a caller can put text: it adds
// no control token.
func FuzzUntrusted(f *testing.F) {
	f.Add("<|user|>")
	f.Add("</arg_value></tool_call>\x00\"\\")
	f.Add(" [gMASK]<sop>\n/nothink")
	v := byteVocab()
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip("the places are made through JSON, which would change the text")
		}
		for _, name := range []string{"GLM-4.5", "GLM-4.7", "GLM-5.1", "GLM-5.2", "GLM-5.3"} {
			// Text that is blank or names a key of a tool is printed otherwise
			// as text; that is not what is looked at here.
			checkPlaces(t, v, name, "a"+text+"b")
		}
	})
}

// FuzzJSON reads and prints JSON: what is printed reads as the same value.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,-0.50,1e400,"\ud83d\ude00\u0000"],"a":null}`))
	f.Add([]byte(` [ true , false , {} , "" ] `))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseJSON(data)
		if valid := json.Valid(data); (err == nil) != valid {
			t.Fatalf("valid %t, error %v", valid, err)
		}
		if err != nil {
			return
		}
		first := appendWritten(nil, &v)
		again, err := parseJSON(first)
		if err != nil {
			t.Fatalf("%q printed as %q: %v", data, first, err)
		}
		if second := appendWritten(nil, &again); string(second) != string(first) {
			t.Fatalf("%q, then %q", first, second)
		}
		appendPython(nil, &v)
	})
}
