package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/tokenizer"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
	"github.com/cofferdam-ml/cofferdam/tokenizer/reply"
)

// Config describes an agent. The zero value is a conversation without tools.
type Config struct {
	Tools  []Tool
	System string // what the model is told first; "": nothing

	Session  glm.SessionConfig
	Sampling *glm.Sampling // nil: as the checkpoint recommends; &glm.Sampling{}: greedy
	Effort   glm.Effort

	// Steps is how many replies a run may take. 0: 50.
	Steps int
	// StepTokens is how many ids one reply may take. 0: 4096, or a quarter of
	// what the pool serves if that is less.
	StepTokens int
	// Tokens is how many ids all replies of a run may take together. 0: as many
	// as Steps and StepTokens allow.
	Tokens int
	// Repeats is how often the same call may fail in the same way in one run. 0: 3.
	Repeats int

	// Transcript is a file to which the conversation is saved, and from which New
	// takes it up if it exists. "": none.
	Transcript string
}

// The defaults of Config.
const (
	defaultSteps      = 50
	defaultStepTokens = 4096
	defaultRepeats    = 3
)

func (c *Config) check(limit int) error {
	for _, f := range []struct {
		name         string
		value        *int
		top, instead int
	}{
		{"Steps", &c.Steps, 1 << 20, defaultSteps},
		{"StepTokens", &c.StepTokens, 1 << 30, max(min(defaultStepTokens, limit/4), 1)},
		{"Tokens", &c.Tokens, 1 << 30, 1 << 30},
		{"Repeats", &c.Repeats, 1 << 20, defaultRepeats},
	} {
		if *f.value < 0 || *f.value > f.top {
			return invalid("Config."+f.name, "is %d, want 0 to %d", *f.value, f.top)
		}
		if *f.value == 0 {
			*f.value = f.instead
		}
	}
	for i, t := range c.Tools {
		field := fmt.Sprintf("Config.Tools[%d]", i)
		switch {
		case t.err != nil:
			return invalid(field, "has no schema: %v", t.err)
		case t.Name == "":
			return invalid(field+".Name", "is empty")
		case t.Call == nil:
			return invalid(field+".Call", "is nil")
		case slices.ContainsFunc(c.Tools[:i], func(o Tool) bool { return o.Name == t.Name }):
			return invalid(field+".Name", "is the name of another tool, too")
		}
	}
	return nil
}

// Agent is a conversation with a model that has tools.
type Agent struct {
	config   Config
	session  *glm.Session
	limits   glm.Limits
	tokens   *tokenizer.Tokenizer
	renderer *chat.Renderer
	declared *reply.Tools
	shown    []glm.Tool // as the model sees them
	log      *transcript
	busy     atomic.Bool

	// generate is the session's, which tests replace.
	generate func(context.Context, glm.Request) iter.Seq2[glm.Event, error]

	messages []glm.Message
	due      []dueCall // of the last reply, as long as results are missing
}

// A dueCall is a call of the last reply, and its result if that has come.
type dueCall struct {
	Call
	text  string
	given bool
}

// New opens a session in a pool of the model and returns an agent in it, with the
// conversation of its transcript if there is one.
//
// A model without tokenizer or template and a Config that means nothing are a
// [glm.RequestError]; a transcript that does not fit is a [TranscriptError].
func New(m *glm.Model, pool *glm.KVPool, c Config) (*Agent, error) {
	switch {
	case m == nil:
		return nil, invalid("model", "is nil")
	case pool == nil:
		return nil, invalid("pool", "is nil")
	case m.Tokenizer() == nil || m.Template() == "":
		return nil, invalid("model", "has no tokenizer.json or no chat template")
	}
	a := &Agent{config: c, limits: pool.Limits(), tokens: m.Tokenizer()}
	a.config.Tools, a.config.System = slices.Clone(c.Tools), valid(c.System)
	if err := a.config.check(a.limits.Context); err != nil {
		return nil, err
	}
	template, err := chat.Named(m.Template())
	if err != nil {
		return nil, err
	}
	if a.renderer, err = chat.New(template, a.tokens); err != nil {
		return nil, err
	}
	if err := a.declare(); err != nil {
		return nil, err
	}
	if c.System != "" {
		a.messages = append(a.messages, glm.Message{Role: glm.System, Content: a.config.System})
	}
	if _, err := a.render(glm.Message{Role: glm.User}); err != nil { // schemas and effort are judged now, not in the first run
		return nil, err
	}
	if c.Transcript != "" {
		if a.log, err = openTranscript(c.Transcript, a); err != nil {
			return nil, err
		}
	}
	if a.session, err = pool.NewSession(c.Session); err != nil {
		return nil, errors.Join(err, a.log.close())
	}
	a.generate = a.session.Generate
	return a, nil
}

func (a *Agent) declare() error {
	list := make([]reply.Tool, len(a.config.Tools))
	for i, t := range a.config.Tools {
		list[i] = reply.Tool{Name: t.Name, Parameters: t.Parameters}
		a.shown = append(a.shown, t.declaration())
	}
	if len(list) == 0 {
		return nil
	}
	var err error
	if a.declared, err = reply.NewTools(list...); err != nil {
		if e, ok := errors.AsType[*reply.SchemaError](err); ok {
			return invalid(fmt.Sprintf("Config.Tools[%d].Parameters", e.Tool), "at %q: want %s, have %s", e.Path, e.Want, e.Have)
		}
	}
	return err
}

// Close closes the session and the transcript. Idempotent.
func (a *Agent) Close() error {
	return errors.Join(a.session.Close(), a.log.close())
}

// Messages returns the conversation so far. Results of calls appear when all
// calls of their reply have one.
func (a *Agent) Messages() []glm.Message { return slices.Clone(a.messages) }

// Unfinished reports whether the model has something to answer: Continue would go
// on.
func (a *Agent) Unfinished() bool {
	if len(a.due) > 0 {
		return true
	}
	n := len(a.messages)
	return n > 0 && (a.messages[n-1].Role == glm.User || a.messages[n-1].Role == glm.ToolRole)
}

// Prompt returns the ids that the next reply would be sampled after. While calls
// wait for their results that is not known yet, and Prompt is what came before
// the results.
func (a *Agent) Prompt() ([]int32, error) {
	p, err := a.render()
	if err != nil {
		return nil, err
	}
	return p.IDs, nil
}

// render renders the conversation and what may follow. Reasoning of earlier turns
// stays, so that a prompt begins with the one before it.
func (a *Agent) render(next ...glm.Message) (*chat.Prompt, error) {
	return a.renderer.Render(chat.Conversation{
		Messages: slices.Concat(a.messages, next), Tools: a.shown, Effort: a.config.Effort, Past: chat.PastKept,
	})
}

// tell adds what the user says.
func (a *Agent) tell(text string) {
	a.messages = append(a.messages, glm.Message{Role: glm.User, Content: text})
}

// said adds a reply that was sampled after a prompt.
func (a *Agent) said(p *chat.Prompt, t *turn) {
	a.messages = append(a.messages, t.message(p, len(a.messages)))
	for _, c := range t.calls {
		a.due = append(a.due, dueCall{Call: c})
	}
}

// answered gives a due call its result. When it was the last one, the results
// become messages, in the order of the calls.
func (a *Agent) answered(call int, text string) {
	a.due[call].text, a.due[call].given = text, true
	if slices.ContainsFunc(a.due, func(d dueCall) bool { return !d.given }) {
		return
	}
	reply := len(a.messages) - 1
	for i, d := range a.due {
		a.messages = append(a.messages, glm.Message{Role: glm.ToolRole, Content: d.text, ToolCallID: callID(reply, i)})
	}
	a.due = nil
}

// callID names a call after its place, so that a conversation that is read again
// has the same names.
func callID(message, call int) string { return fmt.Sprintf("call_%d_%d", message, call) }
