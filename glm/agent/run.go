package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// Run says something to the model and goes on until it has answered. Nothing
// happens until the stream is ranged over. The last element is a Done, or an
// error: one of the session, or a [BudgetError], [RepeatError] or
// [TranscriptError]. What had come before it stays part of the conversation, and
// Continue goes on from there; a reply that was not complete is dropped.
//
// If calls of an earlier run still wait for results, they are answered as not run.
func (a *Agent) Run(ctx context.Context, text string) iter.Seq2[Event, error] {
	return a.stream(ctx, func() error {
		for i, d := range a.due {
			if !d.given {
				if err := a.record(i, "error: not run"); err != nil {
					return err
				}
			}
		}
		text := valid(text)
		if err := a.log.append(line{User: &text}); err != nil {
			return err
		}
		a.tell(text)
		return nil
	})
}

// Continue goes on where a run ended early, or where a transcript ends. It is
// [ErrNothingToDo] if the last run came to its answer.
func (a *Agent) Continue(ctx context.Context) iter.Seq2[Event, error] {
	return a.stream(ctx, func() error {
		if !a.Unfinished() {
			return ErrNothingToDo
		}
		return nil
	})
}

func (a *Agent) stream(ctx context.Context, begin func() error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if ctx == nil {
			yield(nil, invalid("ctx", "is nil"))
			return
		}
		if !a.busy.CompareAndSwap(false, true) {
			yield(nil, ErrBusy)
			return
		}
		defer a.busy.Store(false)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r := &run{Agent: a, ctx: ctx, cancel: cancel, yield: yield, failures: map[string]int{}}
		err := begin()
		if err == nil {
			err = r.loop()
		}
		if err != nil && !r.left {
			yield(nil, err)
		}
	}
}

// A run is one way through the loop.
type run struct {
	*Agent
	ctx    context.Context
	cancel context.CancelFunc
	yield  func(Event, error) bool
	left   bool // the consumer left the loop

	steps    int
	usage    glm.Usage
	warned   bool
	failures map[string]int // by call and what was wrong with it
}

// errLeft ends a run whose consumer has left; nobody sees it.
var errLeft = errors.New("left")

func (r *run) emit(events ...Event) error {
	for _, ev := range events {
		if r.left {
			return errLeft
		}
		if !r.yield(ev, nil) {
			r.left = true
			r.cancel()
			return errLeft
		}
	}
	return nil
}

func (r *run) loop() error {
	for {
		if len(r.due) > 0 {
			if err := r.answer(); err != nil {
				return err
			}
		}
		t, err := r.step()
		if err != nil {
			return err
		}
		if len(t.calls) == 0 {
			return r.emit(Done{Text: t.text.String(), Steps: r.steps, Usage: r.usage})
		}
	}
}

// step samples one reply and makes it part of the conversation.
func (r *run) step() (*turn, error) {
	most, budget, err := r.budget()
	if err != nil {
		return nil, err
	}
	p, err := r.render()
	if err != nil {
		return nil, err
	}
	if err := r.warn(len(p.IDs)); err != nil {
		return nil, err
	}
	t, err := r.newTurn(p)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	finish, err := r.sample(t, glm.Request{Tokens: p.IDs, MaxTokens: most, Sampling: r.config.Sampling})
	if err != nil {
		return nil, err
	}
	switch finish.Reason {
	case glm.FinishStop, glm.FinishToolCalls:
	case glm.FinishLength:
		return nil, budget
	case glm.FinishContext:
		return nil, &glm.ContextError{Prompt: len(p.IDs), Output: most, Max: r.limits.Context, Pool: r.limits.Pool, Limit: r.limits.Binding}
	default:
		return nil, fmt.Errorf("agent: the reply ended as %q", finish.Reason)
	}
	if err := r.emit(t.end()...); err != nil {
		return nil, err
	}
	if err := r.log.append(line{Reply: &replyLine{IDs: t.ids, Message: t.message(p, len(r.messages))}}); err != nil {
		return nil, err
	}
	r.said(p, t)
	r.steps++
	return t, r.emit(Step{Number: r.steps, Usage: finish.Usage, Elapsed: time.Since(began)})
}

// budget returns how many ids the next reply may take, and the error if it takes
// more; or the error if there may be no reply.
func (r *run) budget() (most int, over *BudgetError, err error) {
	c := &r.config
	if r.steps >= c.Steps {
		return 0, nil, &BudgetError{Budget: "Steps", Limit: c.Steps}
	}
	left := c.Tokens - r.usage.Output
	switch {
	case left <= 0:
		return 0, nil, &BudgetError{Budget: "Tokens", Limit: c.Tokens}
	case left < c.StepTokens:
		return left, &BudgetError{Budget: "Tokens", Limit: c.Tokens}, nil
	}
	return c.StepTokens, &BudgetError{Budget: "StepTokens", Limit: c.StepTokens}, nil
}

// warn says once that the context is nearly used up.
func (r *run) warn(prompt int) error {
	limit := r.limits.Context
	if r.warned || 4*prompt < 3*limit && prompt+2*r.config.StepTokens <= limit {
		return nil
	}
	r.warned = true
	return r.emit(ContextLow{Prompt: prompt, Limit: limit})
}

// sample reads a reply from the session.
func (r *run) sample(t *turn, request glm.Request) (finish glm.Finish, err error) {
	for ev, err := range r.generate(r.ctx, request) {
		if err != nil {
			return finish, err
		}
		switch ev := ev.(type) {
		case glm.Token:
			if err := r.emit(t.read(ev.ID)...); err != nil {
				return finish, err
			}
		case glm.Finish:
			finish = ev
			r.usage.Prompt += ev.Usage.Prompt
			r.usage.Cached += ev.Usage.Cached
			r.usage.Output += ev.Usage.Output
			r.usage.Reasoning += ev.Usage.Reasoning
		}
	}
	return finish, nil
}
