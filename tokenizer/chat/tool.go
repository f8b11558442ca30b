package chat

import (
	"bytes"
	"encoding/json"
)

// A Tool is a function that the model may call.
//
// A tool read from JSON is rendered as it was written there: whatever keys it
// has, in their order. A tool made in Go, or changed after it was read, is
// rendered from its fields: name, description, strict, parameters.
type Tool struct {
	Name        string
	Description string
	// Parameters is the JSON schema of the arguments, an object; nil if the
	// tool takes none.
	Parameters json.RawMessage
	// Strict is for clients. GLM-4.5 to GLM-5 print it, later templates do not.
	Strict bool
	// Defer keeps the tool out of the list that opens the prompt (GLM-5.1 and
	// later); a PartToolReference in a tool result declares it (GLM-5.2 and
	// later). Earlier templates list all tools.
	Defer bool

	source *toolSource
}

// toolSource is a tool as it was read.
type toolSource struct {
	object value // the whole object
	tool   Tool  // what was read from it
}

// UnmarshalJSON reads a tool of the OpenAI API, {"type":"function","function":
// {...}}, or the bare inner object. What is wrong with it is a [*RequestError].
func (t *Tool) UnmarshalJSON(data []byte) error {
	object, err := parseJSON(data)
	if err != nil {
		return &RequestError{Reason: err.Error()}
	}
	inner, prefix := &object, ""
	if f := object.get("function"); f != nil {
		inner, prefix = f, "function."
	} else if k := object.get("type"); k != nil && k.text != "function" {
		return &RequestError{Field: "type", Reason: "want function, have " + quote(k.text)}
	}
	if inner.kind != '{' {
		return &RequestError{Field: "function", Reason: "want an object"}
	}
	*t = Tool{
		Strict: inner.isTrue("strict"),
		Defer:  inner.isTrue("defer_loading"),
	}
	name := inner.get("name")
	if name == nil || name.kind != '"' {
		return &RequestError{Field: prefix + "name", Reason: "want a string"}
	}
	if t.Name = name.text; t.Name == "" {
		return &RequestError{Field: prefix + "name", Reason: "missing"}
	}
	if d := inner.get("description"); d != nil && d.kind == '"' {
		t.Description = d.text
	}
	if s := inner.get("parameters"); s != nil && s.kind != 'n' {
		if s.kind != '{' {
			return &RequestError{Field: prefix + "parameters", Reason: "want an object"}
		}
		t.Parameters = appendWritten(nil, s)
	}
	read := *t
	read.Parameters = bytes.Clone(t.Parameters)
	t.source = &toolSource{object: object, tool: read}
	return nil
}

// MarshalJSON writes a tool of the OpenAI API; one that was read and not changed
// as it was read.
func (t Tool) MarshalJSON() ([]byte, error) {
	object, err := t.object()
	if err != nil {
		return nil, err
	}
	return appendWritten(nil, &object), nil
}

// isTrue reports whether a key has a value that Jinja takes for true.
func (v *value) isTrue(key string) bool {
	k := v.get(key)
	if k == nil {
		return false
	}
	switch k.kind {
	case 'f', 'n':
		return false
	case '"':
		return k.text != ""
	case '{', '[':
		return len(k.list) > 0
	case '0':
		return !isZero(k.text)
	}
	return true
}

// isZero reports whether a JSON number is zero.
func isZero(number string) bool {
	for _, c := range number {
		switch {
		case c == 'e' || c == 'E':
			return true
		case '1' <= c && c <= '9':
			return false
		}
	}
	return true
}

// object returns the whole tool object. Its error, if any, says what is wrong
// with Parameters or Name.
func (t *Tool) object() (value, error) {
	if s := t.source; s != nil && t.Name == s.tool.Name && t.Description == s.tool.Description &&
		t.Strict == s.tool.Strict && t.Defer == s.tool.Defer && bytes.Equal(t.Parameters, s.tool.Parameters) {
		return s.object, nil
	}
	if t.Name == "" {
		return value{}, &RequestError{Field: "function.name", Reason: "missing"}
	}
	f := value{kind: '{'}
	f.set("name", value{kind: '"', text: t.Name})
	if t.Description != "" {
		f.set("description", value{kind: '"', text: t.Description})
	}
	if t.Strict {
		f.set("strict", value{kind: 't'})
	}
	if t.Parameters != nil {
		schema, err := parseJSON(t.Parameters)
		if err != nil {
			return value{}, &RequestError{Field: "function.parameters", Reason: err.Error()}
		}
		if schema.kind != '{' {
			return value{}, &RequestError{Field: "function.parameters", Reason: "want an object"}
		}
		f.set("parameters", schema)
	}
	if t.Defer {
		f.set("defer_loading", value{kind: 't'})
	}
	object := value{kind: '{'}
	object.set("type", value{kind: '"', text: "function"})
	object.set("function", f)
	return object, nil
}

func (v *value) set(key string, val value) {
	v.keys = append(v.keys, key)
	v.list = append(v.list, val)
}
