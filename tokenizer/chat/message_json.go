package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// wireMessage is a message of the OpenAI API.
type wireMessage struct {
	Role       Role            `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  *string         `json:"reasoning_content,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// decode is json.Unmarshal with the errors of this package. field is the path of
// data, "" if it is the whole.
func decode(data []byte, v any, field string) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	reason := errJSON.Error()
	if e, ok := errors.AsType[*RequestError](err); ok { // of a value within
		field, reason = join(field, e.Field), e.Reason
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := "an object"
		switch e.Type.Kind() {
		case reflect.String:
			want = "a string"
		case reflect.Slice:
			want = "a list"
		}
		field, reason = join(field, e.Field), "want "+want+", have "+e.Value
	}
	return &RequestError{Field: field, Reason: reason}
}

func join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

// decodeList reads a list, or null, of values that read themselves.
func decodeList[T any](data []byte, field string) ([]T, error) {
	var raw []json.RawMessage
	if err := decode(data, &raw, field); err != nil {
		return nil, err
	}
	list := make([]T, len(raw))
	for i := range raw {
		if err := decode(raw[i], &list[i], fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// UnmarshalJSON reads a message of the OpenAI API. Keys it does not know are
// ignored. Content that is missing or null is empty. A value of the wrong type is
// a [*RequestError].
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	if err := decode(data, &w, ""); err != nil {
		return err
	}
	*m = Message{Role: w.Role, ToolCallID: w.ToolCallID}
	if w.Reasoning != nil {
		m.Reasoning, m.reasoned = *w.Reasoning, true
	}
	var err error
	if len(w.ToolCalls) > 0 {
		if m.ToolCalls, err = decodeList[ToolCall](w.ToolCalls, "tool_calls"); err != nil {
			return err
		}
	}
	m.Content, m.Parts, err = readContent(w.Content, "content")
	return err
}

// MarshalJSON writes a message of the OpenAI API. Sampled ids are not part of it.
func (m Message) MarshalJSON() ([]byte, error) {
	w := wireMessage{Role: m.Role, ToolCallID: m.ToolCallID}
	if m.Reasoning != "" || m.reasoned {
		w.Reasoning = &m.Reasoning
	}
	var err error
	if len(m.ToolCalls) > 0 {
		if w.ToolCalls, err = json.Marshal(m.ToolCalls); err != nil {
			return nil, err
		}
	}
	if w.Content, err = writeContent(m.Content, m.Parts); err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

// readContent reads what may be a string, a list of parts, or null.
func readContent(data json.RawMessage, field string) (text string, parts []Part, err error) {
	if len(data) == 0 {
		return "", nil, nil
	}
	switch data[0] {
	case 'n':
		return "", nil, nil
	case '"':
		err = decode(data, &text, field)
		return text, nil, err
	case '[':
		parts, err = decodeList[Part](data, field)
		return "", parts, err
	}
	return "", nil, &RequestError{Field: field, Reason: "want a string, a list or null"}
}

func writeContent(text string, parts []Part) (json.RawMessage, error) {
	if parts != nil {
		return json.Marshal(parts)
	}
	return json.Marshal(text)
}

type wirePart struct {
	Type       PartType        `json:"type,omitempty"`
	Text       *string         `json:"text,omitempty"`
	Name       string          `json:"name,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
}

// UnmarshalJSON reads an element of a content list: a string, an object with a
// type, or an object with an output.
func (p *Part) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*p = Part{Type: PartText}
		return decode(data, &p.Text, "")
	}
	var w wirePart
	if err := decode(data, &w, ""); err != nil {
		return err
	}
	*p = Part{Type: w.Type, Name: w.Name, ToolCallID: w.ToolCallID}
	if w.Text != nil {
		p.Text = *w.Text
	}
	if len(w.Output) > 0 && w.Type == "" {
		p.Type = PartOutput
	}
	if p.Type != PartOutput {
		return nil
	}
	var err error
	p.Text, p.Parts, err = readContent(w.Output, "output")
	return err
}

// MarshalJSON writes an element of a content list.
func (p Part) MarshalJSON() ([]byte, error) {
	w := wirePart{Type: p.Type, Name: p.Name, ToolCallID: p.ToolCallID}
	switch p.Type {
	case PartText:
		w.Text = &p.Text
	case PartOutput:
		var err error
		if w.Output, err = writeContent(p.Text, p.Parts); err != nil {
			return nil, err
		}
		w.Type = ""
	}
	return json.Marshal(w)
}

type wireCall struct {
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type"`
	Function *wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// UnmarshalJSON reads a tool call of the OpenAI API, or a bare object with name
// and arguments.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var w struct {
		ID        string          `json:"id"`
		Function  *wireFunction   `json:"function"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := decode(data, &w, ""); err != nil {
		return err
	}
	f := w.Function
	if f == nil {
		f = &wireFunction{w.Name, w.Arguments}
	}
	*c = ToolCall{ID: w.ID, Name: f.Name, Arguments: f.Arguments}
	return nil
}

// MarshalJSON writes a tool call of the OpenAI API, with the arguments in a
// string, where clients look for them.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	args := string(c.Arguments)
	if v, err := parseJSON(c.Arguments); err == nil && v.kind == '"' {
		args = v.text
	}
	if args == "" || args == "null" {
		args = "{}"
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return json.Marshal(wireCall{ID: c.ID, Type: "function", Function: &wireFunction{Name: c.Name, Arguments: text}})
}
