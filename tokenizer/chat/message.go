package chat

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A Role says who speaks. The values are those of the OpenAI API.
type Role string

// The roles. RoleDeveloper is rendered as RoleSystem: the templates know no
// developer and would drop such a message without a word.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one turn of a conversation.
//
// Its JSON form is that of the OpenAI API: content is a string, a list of parts
// or null, reasoning is reasoning_content, arguments may be an object or a
// string that holds one.
type Message struct {
	Role Role

	// Content is the text of the message; Parts is the same as a list, for
	// clients that send one. At most one of them is set. The texts of a list
	// are joined without a separator.
	Content string
	Parts   []Part

	// Reasoning is what the assistant thought before it answered. If it is
	// empty and Content holds </think>, what stands before that is taken for
	// the reasoning, as every template does; a message read from JSON that
	// states an empty reasoning_content is exempt.
	Reasoning string

	// ToolCalls are the calls the assistant asked for.
	ToolCalls []ToolCall

	// ToolCallID is the id of the call that a message of RoleTool answers.
	// GLM-5.3 puts results in the order of the calls by it; no id is ever part
	// of a prompt.
	ToolCallID string

	// reasoned: Reasoning is stated even if it is empty.
	reasoned bool
	sampled  *sampled
}

// A PartType is the kind of an element of a content list.
type PartType string

// The kinds of parts. Others, such as image_url, are refused by name.
const (
	// PartText is text. Elements of a JSON list that are mere strings become
	// parts of this kind.
	PartText PartType = "text"
	// PartToolReference, in a tool result, declares a tool that was deferred:
	// Name is the name of the tool. GLM-5.2 and later.
	PartToolReference PartType = "tool_reference"
	// PartOutput is one of several results in a message of RoleTool: Text or
	// Parts is its content and ToolCallID the call it answers. In JSON it is an
	// object with the key output and no type.
	PartOutput PartType = "output"
)

// A Part is an element of a content list.
type Part struct {
	Type       PartType
	Text       string // of PartText and PartOutput
	Name       string // of PartToolReference
	ToolCallID string // of PartOutput
	Parts      []Part // of PartOutput, instead of Text
}

// A ToolCall is a call that the assistant asked for.
type ToolCall struct {
	ID   string // joins the call to its result; not part of the prompt
	Name string
	// Arguments is a JSON object; its keys keep their order. A JSON string that
	// holds an object is taken for the object. Nothing, null and an empty string
	// are taken for {}.
	Arguments json.RawMessage
}

// sampled is what a message remembers of being generated.
type sampled struct {
	by       *Renderer
	ids      []int32
	thinking bool // the prompt they were sampled from had thinking on

	// What the ids said when they were read. A message that says something else
	// now was edited, and its ids no longer stand for it.
	content, reasoning string
	calls              []ToolCall
}

// replay returns the sampled ids of m if they still say what m says and belong to
// the renderer by.
func (m *Message) replay(by *Renderer) *sampled {
	s := m.sampled
	if s == nil || by == nil || s.by != by || m.Role != RoleAssistant {
		return nil
	}
	same := m.Content == s.content && len(m.Parts) == 0 && m.Reasoning == s.reasoning &&
		slices.EqualFunc(m.ToolCalls, s.calls, func(a, b ToolCall) bool {
			return a.Name == b.Name && bytes.Equal(a.Arguments, b.Arguments)
		})
	if !same {
		return nil
	}
	return s
}

// Reply returns m with the ids that were sampled after this prompt and that m was
// read from, a stop id at their end included. When m is rendered again by the
// same Renderer, unchanged, exactly these ids are fed: encoding its text anew
// could cut it into other tokens and lose the kept state from there on. A stop
// id that opens the next turn, <|user|> or <|observation|>, is fed once. A reply
// without a stop id was cut off and is closed with <|endoftext|>.
//
// The ids are not exported and do not survive JSON. If m is edited, it is encoded
// like any other message.
func (p *Prompt) Reply(m Message, ids []int32) Message {
	calls := slices.Clone(m.ToolCalls)
	for i := range calls {
		calls[i].Arguments = slices.Clone(calls[i].Arguments)
	}
	m.Role, m.reasoned = RoleAssistant, true
	m.sampled = &sampled{
		by: p.renderer, ids: slices.Clone(ids), thinking: p.thinking,
		content: m.Content, reasoning: m.Reasoning, calls: calls,
	}
	return m
}
