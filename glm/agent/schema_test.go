package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type place struct {
	Street string `json:"street"`
	Number int    `json:"number,omitempty"`
}

type Embedded struct {
	Deep bool `json:"deep,omitzero"`
}

type everything struct {
	Text    string            `json:"text" jsonschema:"some <text> & \"more\""`
	Small   int8              `json:"small"`
	Big     uint64            `json:"big,omitempty"`
	Ratio   float64           `json:"ratio"`
	Flag    *bool             `json:"flag"`
	List    []string          `json:"list" jsonschema:"names"`
	Pairs   map[string]int    `json:"pairs"`
	Home    place             `json:"home" jsonschema:"where"`
	Any     any               `json:"any" jsonschema:"whatever"`
	Raw     json.RawMessage   `json:"raw"`
	Address netip.Addr        `json:"address"`
	Nested  [][2]place        `json:"nested"`
	Maps    map[string]*place `json:"maps"`
	Plain   string
	Hidden  string `json:"-"`
	secret  string
	Embedded
}

func TestSchema(t *testing.T) {
	_ = everything{}.secret
	s, err := inferSchema[everything]()
	if err != nil {
		t.Fatal(err)
	}
	const placed = `{"type":"object","properties":{"street":{"type":"string"},"number":{"type":"integer"}},"required":["street"]`
	want := `{"type":"object","properties":{` +
		`"text":{"type":"string","description":"some <text> & \"more\""},` +
		`"small":{"type":"integer"},"big":{"type":"integer"},"ratio":{"type":"number"},"flag":{"type":"boolean"},` +
		`"list":{"type":"array","items":{"type":"string"},"description":"names"},` +
		`"pairs":{"type":"object","additionalProperties":{"type":"integer"}},` +
		`"home":` + placed + `,"description":"where"},` +
		`"any":{"description":"whatever"},"raw":{},"address":{"type":"string"},` +
		`"nested":{"type":"array","items":{"type":"array","items":` + placed + `}}},` +
		`"maps":{"type":"object","additionalProperties":` + placed + `}},` +
		`"Plain":{"type":"string"},"deep":{"type":"boolean"}},` +
		`"required":["text","small","ratio","list","pairs","home","any","raw","address","nested","maps","Plain"]}`
	if diff := cmp.Diff(want, string(s.json)); diff != "" {
		t.Error(diff)
	}
	if !json.Valid(s.json) {
		t.Error("the schema is no JSON")
	}
	empty, err := inferSchema[struct{}]()
	if err != nil || string(empty.json) != `{"type":"object","properties":{}}` {
		t.Errorf("of no fields: %s, %v", empty.json, err)
	}
}

type loop struct {
	Next *loop `json:"next"`
}

func TestNoSchema(t *testing.T) {
	for want, tool := range map[string]Tool{
		"contains itself":        Func("f", "", func(context.Context, loop) (string, error) { return "", nil }),
		"want a struct":          Func("f", "", func(context.Context, string) (string, error) { return "", nil }),
		"base64":                 Func("f", "", func(context.Context, struct{ B []byte }) (string, error) { return "", nil }),
		"has no JSON schema":     Func("f", "", func(context.Context, struct{ C chan int }) (string, error) { return "", nil }),
		"keys that are no":       Func("f", "", func(context.Context, struct{ M map[int]int }) (string, error) { return "", nil }),
		"two fields of the name": Func("f", "", func(context.Context, twice) (string, error) { return "", nil }),
		"reads JSON in its own":  Func("f", "", func(context.Context, struct{ D own }) (string, error) { return "", nil }),
		"has the option string": Func("f", "", func(context.Context, struct {
			N int `json:",string"`
		}) (string, error) {
			return "", nil
		}),
		"embeds *agent.Embedded,": Func("f", "", func(context.Context, struct{ *Embedded }) (string, error) { return "", nil }),
	} {
		if tool.err == nil || !strings.Contains(tool.err.Error(), want) {
			t.Errorf("%s: %v", want, tool.err)
		}
	}
}

type twice struct {
	A int `json:"B"`
	B int
}

type own struct{}

func (*own) UnmarshalJSON([]byte) error { return nil }

func TestDecode(t *testing.T) {
	type arguments struct {
		Path  string  `json:"path"`
		Lines []int   `json:"lines,omitempty"`
		Home  *place  `json:"home"`
		Ratio float32 `json:"ratio,omitempty"`
	}
	var got arguments
	tool := Func("f", "", func(_ context.Context, in arguments) (string, error) { got = in; return "", nil })
	for _, test := range []struct {
		json string
		want any // arguments, or an ArgumentError
	}{
		{`{"path":"a","lines":[1,2],"home":{"street":"b"}}`, arguments{Path: "a", Lines: []int{1, 2}, Home: &place{Street: "b"}}},
		{`{"path":""}`, arguments{}},
		{`{"path":"a","home":null,"lines":null}`, arguments{Path: "a"}},
		{`{}`, ArgumentError{"path", "a value", "none"}},
		{``, ArgumentError{"path", "a value", "none"}},
		{`{"path":null}`, ArgumentError{"path", "a value", "none"}},
		{`{"Path":"a"}`, ArgumentError{"path", "a value", "none"}},
		{`{"path":"a","LINES":[1]}`, ArgumentError{"LINES", "no such property", "a value"}},
		{`{"path":"a","z":1,"b":1}`, ArgumentError{"b", "no such property", "a value"}},
		{`{"path":1}`, ArgumentError{"path", "a value for string", "number"}},
		{`{"path":"a","lines":[1,"x"]}`, ArgumentError{"lines", "a value for int", "string"}},
		{`{"path":"a","lines":[1.5]}`, ArgumentError{"lines", "a value for int", "number 1.5"}},
		{`{"path":"a","home":{"street":"b","floor":2}}`, ArgumentError{"", "what the schema says", `unknown field "floor"`}},
		{`[]`, ArgumentError{"", "an object", "something else"}},
		{`{"path":"a"`, ArgumentError{"", "an object", "something else"}},
	} {
		got = arguments{}
		_, err := tool.Call(t.Context(), json.RawMessage(test.json))
		var have any = got
		if e, ok := errors.AsType[*ArgumentError](err); ok {
			have = *e
		} else if err != nil {
			t.Errorf("%s: %v", test.json, err)
		}
		if diff := cmp.Diff(test.want, have); diff != "" {
			t.Errorf("%s: %s", test.json, diff)
		}
	}
}
