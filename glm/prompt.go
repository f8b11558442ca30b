package glm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
	"github.com/cofferdam-ml/cofferdam/tokenizer/reply"
)

// prompt is a request in ids.
type prompt struct {
	ids []int32
	// forced is how many of ids, at the end, already belong to the reply: the
	// beginning of a tool call that the request demands.
	forced int
	chat   *chat.Prompt // nil for a request of ids
	tools  *reply.Tools // nil: none declared
}

// given returns the ids before the reply.
func (p *prompt) given() []int32 { return p.ids[:len(p.ids)-p.forced] }

// prompt checks a request and renders it.
func (m *Model) prompt(r *Request) (*prompt, error) {
	if err := r.check(m.vocab, m.valid); err != nil {
		return nil, err
	}
	if len(r.Stop) > 0 && !m.reads {
		return nil, invalid("Stop", "cannot be looked for: the checkpoint has no tokenizer.json of GLM")
	}
	if len(r.Tokens) > 0 {
		return &prompt{ids: slices.Clone(r.Tokens)}, nil
	}
	if m.renderer == nil {
		return nil, invalid("Messages", "cannot be rendered: the checkpoint has no tokenizer.json or no chat template")
	}
	conversation := chat.Conversation{Messages: r.Messages, Tools: r.Tools, Effort: r.Effort}
	if r.ToolChoice.Mode == ToolNone {
		conversation.Tools = nil
	}
	rendered, err := m.renderer.Render(conversation)
	if err != nil {
		return nil, err
	}
	p := &prompt{ids: rendered.IDs, chat: rendered}
	if p.tools, err = declare(conversation.Tools); err != nil {
		return nil, err
	}
	if r.ToolChoice.Mode == ToolRequired || r.ToolChoice.Mode == ToolNamed {
		forced, err := m.force(conversation, rendered, r.ToolChoice)
		if err != nil {
			return nil, err
		}
		p.ids, p.forced = append(slices.Clip(p.ids), forced...), len(forced)
	}
	return p, nil
}

func declare(tools []Tool) (*reply.Tools, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	list := make([]reply.Tool, len(tools))
	for i, t := range tools {
		list[i] = reply.Tool{Name: t.Name, Parameters: t.Parameters}
	}
	declared, err := reply.NewTools(list...)
	if e, ok := errors.AsType[*reply.SchemaError](err); ok {
		field := fmt.Sprintf("tools[%d].function.", e.Tool)
		if e.Path == "name" {
			field += e.Path
		} else {
			field += "parameters" + anonymous(e.Path)
		}
		return nil, invalid(field, "want %s, have %s", e.Want, e.Have)
	}
	return declared, err
}

// anonymous is a JSON pointer into a schema without the names in it: those are
// part of the prompt, which no error shows.
func anonymous(pointer string) string {
	steps := strings.Split(pointer, "/")
	for i, s := range steps {
		switch s {
		case "", "$ref", "$defs", "definitions", "properties", "additionalProperties", "items", "allOf", "anyOf", "oneOf":
		default:
			before := steps[max(i-1, 0)]
			if _, err := strconv.Atoi(s); err != nil || before != "allOf" && before != "anyOf" && before != "oneOf" {
				steps[i] = "*"
			}
		}
	}
	return strings.Join(steps, "/")
}

// force returns the ids with which a reply begins that calls a tool at once: the
// template itself says how, by rendering such a reply as history.
func (m *Model) force(c chat.Conversation, plain *chat.Prompt, choice ToolChoice) ([]int32, error) {
	open, _ := m.tokens.ID("<tool_call>")
	end, _ := m.tokens.ID("</tool_call>")
	name := choice.Name
	if choice.Mode == ToolRequired {
		name = c.Tools[0].Name // only what stands before it is used
	}
	c.Messages = append(slices.Clip(c.Messages), Message{
		Role: Assistant, ToolCalls: []Call{{Name: name, Arguments: json.RawMessage("{}")}},
	})
	called, err := m.renderer.Render(c)
	if err != nil {
		return nil, err
	}
	// After the generation prompt comes the reply; a reply as history closes
	// the reasoning that a generation prompt leaves open.
	turn := called.IDs[min(plain.Generation, len(called.IDs)):]
	at := slices.Index(turn, open)
	if at < 0 {
		return nil, invalid("ToolChoice", "cannot be forced: template %s shows no call", m.Template())
	}
	begun := plain.IDs[plain.Generation:]
	if plain.InReasoning {
		think, _ := m.tokens.ID("</think>")
		begun = append(slices.Clone(begun), think)
		turn = append(slices.Clone(begun), turn[at:]...)
		at = len(begun)
		begun = plain.IDs[plain.Generation:]
	}
	if !slices.Equal(turn[:min(len(begun), len(turn))], begun) {
		return nil, invalid("ToolChoice", "cannot be forced: template %s begins a call elsewhere", m.Template())
	}
	stop := at + 1
	if choice.Mode == ToolNamed {
		n := slices.Index(turn[at:], end)
		if n < 0 {
			return nil, invalid("ToolChoice", "cannot be forced: template %s does not end a call", m.Template())
		}
		stop = at + n
	}
	return slices.Clone(turn[len(begun):stop]), nil
}
