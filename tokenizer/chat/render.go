package chat

import (
	"fmt"
	"strings"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// A Renderer turns conversations into the ids of one vocabulary. It never changes
// and may be used by any number of goroutines at once.
type Renderer struct {
	template *Template
	tokens   *tokenizer.Tokenizer
	controls [controlCount]int32
}

// A Prompt is a rendered conversation.
type Prompt struct {
	// IDs are the ids to feed; their number is what the prompt costs. The
	// slice belongs to the caller.
	IDs []int32
	// Generation is where the generation prompt begins: IDs[Generation:] is
	// <|assistant|> and what the template puts after it.
	Generation int
	// InReasoning reports that the generation prompt opened the reasoning: the
	// reply begins inside it and holds no <think>.
	InReasoning bool

	renderer *Renderer
	thinking bool
}

// New returns the Renderer of a template for a vocabulary. A vocabulary without
// one of the control tokens is a [*TokenError].
func New(t *Template, tokens *tokenizer.Tokenizer) (*Renderer, error) {
	r := &Renderer{template: t, tokens: tokens}
	for c, text := range controlText {
		id, ok := tokens.ID(text)
		if !ok {
			return nil, &TokenError{Template: t.name, Token: text}
		}
		r.controls[c] = id
	}
	return r, nil
}

// Template returns the template that r prints.
func (r *Renderer) Template() *Template { return r.template }

// Render returns the prompt of a conversation. What cannot be rendered is a
// [*RequestError]. Render does not change c, and keeps nothing of it.
func (r *Renderer) Render(c Conversation) (*Prompt, error) {
	w := newWriter(r.template, r, &c)
	if err := w.conversation(); err != nil {
		return nil, err
	}
	return &Prompt{
		IDs:         w.out.ids,
		Generation:  w.generation,
		InReasoning: w.thinking && w.opens,
		renderer:    r,
		thinking:    w.thinking,
	}, nil
}

// Text returns the string that the template prints for a conversation, control
// tokens as text. It is for people and for tests: encoding it would give control
// tokens to text that merely looks like them. Messages with sampled ids are
// printed from their text.
func (t *Template) Text(c Conversation) (string, error) {
	w := newWriter(t, nil, &c)
	if err := w.conversation(); err != nil {
		return "", err
	}
	return string(w.out.segment), nil
}

// A writer prints one conversation.
type writer struct {
	*Template
	*Conversation
	out      output
	lastUser int     // index of the last message of the user, -1 if there is none
	thinking bool    // the caller wants reasoning
	objects  []value // of the tools

	generation int
}

func newWriter(t *Template, r *Renderer, c *Conversation) *writer {
	w := &writer{Template: t, Conversation: c, out: output{renderer: r}, lastUser: -1}
	w.thinking = t.alwaysThink || c.Effort != EffortNone
	for i := range c.Messages {
		if c.Messages[i].Role == RoleUser {
			w.lastUser = i
		}
	}
	return w
}

func invalid(reason, field string, args ...any) error {
	return &RequestError{Field: fmt.Sprintf(field, args...), Reason: reason}
}

func (w *writer) conversation() error {
	switch {
	case len(w.Messages) == 0:
		return invalid("a conversation needs a message", "messages")
	case !w.Effort.valid():
		return invalid("unknown effort "+quote(string(w.Effort)), "effort")
	case w.Past > PastCleared:
		return invalid("not one of the constants of Past", "past")
	}
	w.out.control(ctlMask)
	w.out.control(ctlStart)
	w.effortBlock()
	if err := w.toolBlock(); err != nil {
		return err
	}
	for i := 0; i < len(w.Messages); {
		next, err := w.message(i)
		if err != nil {
			return err
		}
		i = next
	}
	w.generationPrompt()
	return nil
}

// effortBlock prints the system block that states the effort.
func (w *writer) effortBlock() {
	level := "Max"
	switch {
	case w.effort == effortNowhere || !w.thinking:
		return
	case w.Effort == EffortHigh:
		level = "High"
	case w.Effort == EffortLow && w.effort == effortLowHighMax:
		level = "Low"
	}
	w.out.control(ctlSystem)
	w.out.text("Reasoning Effort: " + level)
}

// message prints message i, or the run of tool results that begins there, and
// returns the index after it.
func (w *writer) message(i int) (next int, err error) {
	m := &w.Messages[i]
	if len(m.Parts) > 0 && m.Content != "" {
		return 0, invalid("content and parts are both set", "messages[%d]", i)
	}
	if m.Role != RoleAssistant && len(m.ToolCalls) > 0 {
		return 0, invalid("only the assistant calls tools", "messages[%d].tool_calls", i)
	}
	switch m.Role {
	case RoleSystem, RoleDeveloper:
		return i + 1, w.plain(i, ctlSystem, false)
	case RoleUser:
		return i + 1, w.plain(i, ctlUser, w.noThink && !w.thinking)
	case RoleAssistant:
		return i + 1, w.assistant(i)
	case RoleTool:
		return w.results(i)
	}
	return 0, invalid("unknown role "+quote(string(m.Role)), "messages[%d].role", i)
}

// plain prints a message that is a role token and its text.
func (w *writer) plain(i int, role control, noThink bool) error {
	text, err := w.textOf(i)
	if err != nil {
		return err
	}
	w.out.control(role)
	w.line()
	if noThink {
		// The template leaves out its own /nothink if the user wrote one. Either
		// way there is one, and the caller asked for it, so it is the token.
		w.out.text(strings.TrimSuffix(text, controlText[ctlNoThink]))
		w.out.control(ctlNoThink)
		return nil
	}
	w.out.text(text)
	return nil
}

// textOf returns the text of a message whose parts may only be text.
func (w *writer) textOf(i int) (string, error) {
	m := &w.Messages[i]
	if len(m.Parts) == 0 {
		return m.Content, nil
	}
	return joinParts(m.Parts, fmt.Sprintf("messages[%d].content", i))
}

// joinParts joins text parts; field is the path of the list.
func joinParts(parts []Part, field string) (string, error) {
	if len(parts) == 1 && parts[0].Type == PartText {
		return parts[0].Text, nil
	}
	var b strings.Builder
	for j := range parts {
		if parts[j].Type != PartText {
			return "", badPart(&parts[j], field, j)
		}
		b.WriteString(parts[j].Text)
	}
	return b.String(), nil
}

func badPart(p *Part, field string, j int) error {
	reason := "parts of type " + quote(string(p.Type)) + " are not supported here"
	return invalid(reason, "%s[%d].type", field, j)
}

// line breaks the line in the templates that do.
func (w *writer) line() {
	if w.lines {
		w.out.text("\n")
	}
}

func (w *writer) generationPrompt() {
	w.out.flush()
	w.generation = len(w.out.ids)
	w.out.control(ctlAssistant)
	w.opening(w.thinking)
	w.out.flush()
}

// opening prints what follows <|assistant|> before the model goes on.
func (w *writer) opening(thinking bool) {
	switch {
	case !thinking:
		w.noReasoning(w.off, false)
	case w.opens:
		w.out.control(ctlThink)
	}
}
