package chat

import (
	"fmt"
	"slices"
)

// A result is what one <tool_response> holds.
type result struct {
	call       string // id of the call it answers, "" if none is given
	text       string
	references []int // indices of deferred tools, which it declares instead of text
	declares   bool
	opens      bool // <|observation|> stands before it
}

// results prints the run of tool messages that begins at message first and
// returns the index after it.
func (w *writer) results(first int) (next int, err error) {
	var list []result
	for next = first; next < len(w.Messages) && w.Messages[next].Role == RoleTool; next++ {
		from := len(list)
		if list, err = w.appendResults(list, next); err != nil {
			return 0, err
		}
		// Where a list is several results, each list opens the turn again.
		if from < len(list) && (next == first || w.splits && len(w.Messages[next].Parts) > 0) {
			list[from].opens = true
		}
	}
	if w.reorders && first > 0 && w.Messages[first-1].Role == RoleAssistant {
		list[0].opens = false
		inCallOrder(list, w.Messages[first-1].ToolCalls)
		list[0].opens = true
	}
	for i := range list {
		w.result(&list[i])
	}
	return next, nil
}

// appendResults adds the results of message i.
func (w *writer) appendResults(list []result, i int) ([]result, error) {
	m := &w.Messages[i]
	if len(m.Parts) > 0 && m.Content != "" {
		return nil, invalid("content and parts are both set", "messages[%d]", i)
	}
	if len(m.Parts) == 0 {
		return append(list, result{call: m.ToolCallID, text: m.Content}), nil
	}
	field := fmt.Sprintf("messages[%d].content", i)
	if !w.splits && m.Parts[0].Type != PartOutput {
		r, err := w.content(m.Parts, field)
		r.call = m.ToolCallID
		return append(list, r), err
	}
	for j := range m.Parts {
		p := &m.Parts[j]
		r := result{call: p.ToolCallID, text: p.Text}
		switch {
		case p.Type == PartText && w.splits:
		case p.Type == PartOutput && len(p.Parts) > 0:
			if p.Text != "" {
				return nil, invalid("text and parts are both set", "%s[%d].output", field, j)
			}
			var err error
			if r, err = w.content(p.Parts, fmt.Sprintf("%s[%d].output", field, j)); err != nil {
				return nil, err
			}
			r.call = p.ToolCallID
		case p.Type == PartOutput:
		default:
			return nil, badPart(p, field, j)
		}
		list = append(list, r)
	}
	return list, nil
}

// content reads a list that is one result: text, or references to tools.
func (w *writer) content(parts []Part, field string) (result, error) {
	if parts[0].Type != PartToolReference || !w.references {
		text, err := joinParts(parts, field)
		return result{text: text}, err
	}
	r := result{declares: true}
	for j := range parts {
		p := &parts[j]
		if p.Type != PartToolReference {
			return r, badPart(p, field, j)
		}
		found := false
		for k := range w.Tools {
			if w.Tools[k].Name == p.Name {
				r.references = append(r.references, k)
				found = true
			}
		}
		if !found {
			return r, invalid("no tool has this name", "%s[%d].name", field, j)
		}
	}
	return r, nil
}

// inCallOrder puts results in the order of the calls they answer. It leaves them
// as they are unless every call has an id of its own and every result answers a
// call that no other result answers.
func inCallOrder(list []result, calls []ToolCall) {
	position := make(map[string]int, len(calls))
	for i := range calls {
		if _, twice := position[calls[i].ID]; twice || calls[i].ID == "" {
			return
		}
		position[calls[i].ID] = i
	}
	answered := make(map[string]bool, len(list))
	for i := range list {
		if _, known := position[list[i].call]; !known || answered[list[i].call] {
			return
		}
		answered[list[i].call] = true
	}
	slices.SortFunc(list, func(a, b result) int { return position[a.call] - position[b.call] })
}

func (w *writer) result(r *result) {
	if r.opens {
		w.out.control(ctlObservation)
	}
	w.line()
	w.out.control(ctlResult)
	w.line()
	if r.declares {
		w.out.text("<tools>\n")
		for _, k := range r.references {
			w.tool(k)
			w.out.text("\n")
		}
		w.out.text("</tools>")
	} else {
		w.out.text(r.text)
	}
	w.line()
	w.out.control(ctlResultEnd)
}
