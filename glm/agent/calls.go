package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/tokenizer/reply"
)

// outcome is how a due call ended.
type outcome struct {
	Result
	at  int   // among the due calls
	err error // the context's: there is no result
}

// answer runs the calls that have no result yet, and makes the results part of
// the conversation as they come. They are emitted in the order of the calls.
func (r *run) answer() error {
	calls := slices.Clone(r.due) // answered empties it
	results := make([]*outcome, len(calls))
	for i, d := range calls {
		if d.given {
			results[i] = &outcome{} // said before the restart
		}
	}
	var failed error
	emitted := 0
	for _, group := range r.groups(calls) {
		done := make(chan outcome, len(group))
		for _, i := range group {
			go func() {
				o := r.outcome(calls[i].Call)
				o.at = i
				done <- o
			}()
		}
		for range group {
			o := <-done
			if o.err == nil { // also after another was cancelled: what was done is not done again
				o.Text = valid(o.Text)
				o.err = r.record(o.at, o.Text)
			}
			if o.err != nil {
				failed = cmp.Or(failed, o.err)
				r.cancel()
				continue
			}
			results[o.at] = &o
			for ; emitted < len(results) && results[emitted] != nil; emitted++ {
				if calls[emitted].given {
					continue
				}
				r.emit(results[emitted].Result) // a consumer who left is noticed by the context
			}
		}
		if failed != nil {
			return failed
		}
		if r.left {
			return errLeft
		}
		if r.ctx.Err() != nil {
			return cancelled(r.ctx)
		}
	}
	return r.repeated(results)
}

// groups splits the calls without result into runs of calls that may go on at the
// same time.
func (r *run) groups(calls []dueCall) (groups [][]int) {
	alone := true
	for i, c := range calls {
		if c.given {
			continue
		}
		t := r.tool(c.Name)
		if t != nil && c.Bad == nil && t.Alone {
			groups, alone = append(groups, []int{i}), true
			continue
		}
		if alone {
			groups, alone = append(groups, nil), false
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	return groups
}

func (a *Agent) tool(name string) *Tool {
	for i := range a.config.Tools {
		if a.config.Tools[i].Name == name {
			return &a.config.Tools[i]
		}
	}
	return nil
}

// record saves a result before it becomes part of the conversation.
func (a *Agent) record(call int, text string) error {
	if err := a.log.append(line{Result: &resultLine{Call: call, Text: text}}); err != nil {
		return err
	}
	a.answered(call, text)
	return nil
}

// outcome runs a call, or says why it is not run.
func (r *run) outcome(c Call) outcome {
	o := outcome{Result: Result{Call: c, Failed: true}}
	t := r.tool(c.Name)
	switch {
	case c.Bad != nil && (t == nil || errors.Is(c.Bad, reply.UnknownTool)):
		o.Text = "error: no tool " + c.Name
		return o
	case c.Bad != nil:
		o.Text = "error: wrong arguments: " + unread(c.Bad)
		return o
	case r.ctx.Err() != nil:
		o.err = cancelled(r.ctx)
		return o
	}
	began := time.Now()
	text, err := call(r.ctx, t, c)
	o.Elapsed = time.Since(began)
	switch {
	case err == nil:
		o.Text, o.Failed = text, false
	case r.ctx.Err() != nil: // an artefact of the end; the call is run again
		o.err = cancelled(r.ctx)
	default:
		o.Text = "error: " + err.Error()
	}
	return o
}

// unread says to the model what is wrong with a call.
func unread(err error) string {
	e, ok := errors.AsType[*reply.CallError](err)
	if !ok {
		return err.Error()
	}
	s := e.Fault.String()
	if e.Arg > 0 {
		s = fmt.Sprintf("argument %d: %s", e.Arg, s)
	}
	if e.Want != "" {
		s += ": want " + e.Want + ", have " + e.Have
	}
	return s
}

// call runs a tool. A panic is an error of the tool.
func call(ctx context.Context, t *Tool, c Call) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = "", fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	return t.Call(ctx, slices.Clone(c.Arguments))
}

// repeated counts failures and reports a call that fails all the time.
func (r *run) repeated(results []*outcome) error {
	for _, o := range results {
		if !o.Failed {
			continue
		}
		key := fmt.Sprintf("%q %q %q", o.Call.Name, o.Call.Arguments, o.Text)
		if r.failures[key]++; r.failures[key] >= r.config.Repeats {
			return &RepeatError{Tool: o.Call.Name, Times: r.failures[key]}
		}
	}
	return nil
}

// valid makes text what it will be when a transcript brings it back: JSON holds
// UTF-8 only.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func cancelled(ctx context.Context) error {
	return fmt.Errorf("%w: %w", glm.ErrCanceled, context.Cause(ctx))
}
