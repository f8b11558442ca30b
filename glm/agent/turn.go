package agent

import (
	"strings"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
	"github.com/cofferdam-ml/cofferdam/tokenizer/reply"
)

// A turn reads one reply. The agent samples after ids and reads ids itself, where
// glm would do it for messages, because ids are what a transcript must bring back.
type turn struct {
	parser          *reply.Parser
	ids             []int32
	reasoning, text strings.Builder
	calls           []Call // by index
}

func (a *Agent) newTurn(p *chat.Prompt) (*turn, error) {
	parser, err := reply.New(a.tokens, a.declared, p.IDs)
	return &turn{parser: parser}, err
}

// read takes the next ids and returns what they say.
func (t *turn) read(ids ...int32) []Event {
	t.ids = append(t.ids, ids...)
	return t.events(t.parser.Append(nil, ids...))
}

// end returns what the parser still held back.
func (t *turn) end() []Event { return t.events(t.parser.Finish(nil)) }

func (t *turn) events(from []reply.Event) []Event {
	var out []Event
	for _, ev := range from {
		switch ev := ev.(type) {
		case reply.ReasoningDelta:
			t.reasoning.WriteString(ev.Text)
			out = append(out, ReasoningDelta(ev))
		case reply.TextDelta:
			t.text.WriteString(ev.Text)
			out = append(out, TextDelta(ev))
		case reply.ToolCallDelta:
			out = append(out, CallDelta(ev))
		case reply.ToolCall:
			c := Call{Index: ev.Index, Name: ev.Name, Arguments: ev.Arguments}
			t.calls = append(t.calls, c)
			out = append(out, c)
		case reply.BadToolCall:
			c := Call{Index: ev.Index, Name: ev.Name, Bad: ev.Err}
			t.calls = append(t.calls, c)
			out = append(out, c)
		}
	}
	return out
}

// message returns the reply as message n of the conversation. It carries the
// sampled ids, which is what the next prompt shows, bad calls included.
func (t *turn) message(p *chat.Prompt, n int) glm.Message {
	m := glm.Message{Role: glm.Assistant, Reasoning: t.reasoning.String(), Content: t.text.String()}
	for i, c := range t.calls {
		if c.Bad == nil {
			m.ToolCalls = append(m.ToolCalls, glm.Call{ID: callID(n, i), Name: c.Name, Arguments: c.Arguments})
		}
	}
	return p.Reply(m, t.ids)
}
