package chat

import (
	"encoding/json"
)

// wireMessage is a message of the OpenAI API.
type wireMessage struct {
	Role       Role            `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  *string         `json:"reasoning_content,omitempty"`
	ToolCalls  []ToolCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// UnmarshalJSON reads a message of the OpenAI API. Keys it does not know are
// ignored. Content that is missing or null is empty.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*m = Message{Role: w.Role, ToolCalls: w.ToolCalls, ToolCallID: w.ToolCallID}
	if w.Reasoning != nil {
		m.Reasoning, m.reasoned = *w.Reasoning, true
	}
	var err error
	m.Content, m.Parts, err = readContent(w.Content, "content")
	return err
}

// MarshalJSON writes a message of the OpenAI API. Sampled ids are not part of it.
func (m Message) MarshalJSON() ([]byte, error) {
	w := wireMessage{Role: m.Role, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID}
	if m.Reasoning != "" || m.reasoned {
		w.Reasoning = &m.Reasoning
	}
	var err error
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
		err = json.Unmarshal(data, &text)
		return text, nil, err
	case '[':
		err = json.Unmarshal(data, &parts)
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
	if data[0] == '"' {
		*p = Part{Type: PartText}
		return json.Unmarshal(data, &p.Text)
	}
	var w wirePart
	if err := json.Unmarshal(data, &w); err != nil {
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
		wireCall
		wireFunction
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	f := w.Function
	if f == nil {
		f = &w.wireFunction
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
