package chat

import (
	"fmt"
	"strings"
)

// assistant prints message i: reasoning, answer, calls, or the ids it was
// sampled as.
func (w *writer) assistant(i int) error {
	m := &w.Messages[i]
	content, err := w.textOf(i)
	if err != nil {
		return err
	}
	shown := w.shows(i)
	if s := m.replay(w.out.renderer); s != nil && (shown || !s.thinking) {
		w.replay(s)
		return nil
	}
	w.out.control(ctlAssistant)

	reasoning, stated := m.Reasoning, m.reasoned || m.Reasoning != ""
	if !stated {
		reasoning, content, stated = w.splitReasoning(content)
	}
	if shown && (reasoning != "" || stated && w.showsEmpty) {
		if w.strips {
			reasoning = strip(reasoning)
		}
		w.line()
		w.out.control(ctlThink)
		w.out.text(reasoning)
		w.out.control(ctlThinkEnd)
	} else {
		w.noReasoning(w.hidden, i > w.lastUser)
	}

	if content = strip(content); content != "" {
		w.line()
		w.out.text(content)
	}
	for j := range m.ToolCalls {
		if err := w.call(&m.ToolCalls[j]); err != nil {
			err.Field = fmt.Sprintf("messages[%d].tool_calls[%d].%s", i, j, err.Field)
			return err
		}
	}
	return nil
}

// shows reports whether the reasoning of message i is shown, if it has any.
func (w *writer) shows(i int) bool {
	if i > w.lastUser {
		return true
	}
	switch w.past {
	case pastOnRequest:
		return w.Past == PastKept
	case pastUnlessCleared:
		return w.Past != PastCleared
	}
	return false
}

// splitReasoning finds reasoning in the content: what stands before the first
// </think>, from the last <think> there. The content is what follows the last
// </think>.
func (w *writer) splitReasoning(content string) (reasoning, rest string, found bool) {
	before, _, found := strings.Cut(content, controlText[ctlThinkEnd])
	if !found {
		return "", content, false
	}
	rest = content[strings.LastIndex(content, controlText[ctlThinkEnd])+len(controlText[ctlThinkEnd]):]
	if w.trims {
		before = strings.TrimRight(before, "\n")
		rest = strings.TrimLeft(rest, "\n")
	}
	reasoning = before
	if at := strings.LastIndex(before, controlText[ctlThink]); at >= 0 {
		reasoning = before[at+len(controlText[ctlThink]):]
	}
	if w.trims {
		reasoning = strings.TrimLeft(reasoning, "\n")
	}
	return reasoning, rest, true
}

// noReasoning prints what stands where no reasoning is shown.
func (w *writer) noReasoning(rule hiddenRule, recent bool) {
	w.line()
	if rule == hiddenEmpty || rule == hiddenRecent && recent && w.thinking {
		w.out.control(ctlThink)
	}
	w.out.control(ctlThinkEnd)
}

// replay feeds the ids a message was sampled as, after the end of the prompt they
// were sampled from.
func (w *writer) replay(s *sampled) {
	w.out.control(ctlAssistant)
	w.opening(s.thinking)
	w.out.flush()
	ids := s.ids
	closed := false
	if n := len(ids); n > 0 {
		switch ids[n-1] {
		case w.out.renderer.controls[ctlUser], w.out.renderer.controls[ctlObservation]:
			// The stop id is the role token of the next message, which prints
			// it. If another message follows after all, it prints another.
			ids, closed = ids[:n-1], true
		case w.out.renderer.controls[ctlEndOfText]:
			closed = true
		}
	}
	w.out.ids = append(w.out.ids, ids...)
	if !closed {
		w.out.control(ctlEndOfText)
	}
}

// call prints a tool call. The Field of its error is a path within the call.
func (w *writer) call(c *ToolCall) *RequestError {
	args, reason := arguments(c.Arguments)
	switch {
	case c.Name == "":
		return &RequestError{Field: "function.name", Reason: "missing"}
	case reason != "":
		return &RequestError{Field: "function.arguments", Reason: reason}
	}
	w.line()
	w.out.control(ctlCall)
	w.out.text(c.Name)
	w.line()
	for k := range args.list {
		w.out.control(ctlKey)
		w.out.text(args.keys[k])
		w.out.control(ctlKeyEnd)
		w.line()
		w.out.control(ctlValue)
		if v := &args.list[k]; v.kind == '"' {
			w.out.text(v.text)
		} else {
			w.out.segment = appendPython(w.out.segment, v)
		}
		w.out.control(ctlValueEnd)
		w.line()
	}
	w.out.control(ctlCallEnd)
	return nil
}

// arguments reads the arguments of a call, an object or a string that holds one.
func arguments(raw []byte) (args value, reason string) {
	if len(raw) == 0 {
		return value{}, ""
	}
	v, err := parseJSON(raw)
	if err == nil && v.kind == '"' {
		if v.text == "" {
			return value{}, ""
		}
		v, err = parseJSON([]byte(v.text))
	}
	switch {
	case err != nil:
		return value{}, err.Error()
	case v.kind == 'n':
		return value{}, ""
	case v.kind != '{':
		return value{}, "want an object"
	}
	return v, ""
}
