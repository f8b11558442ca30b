package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/agent"
	"github.com/cofferdam-ml/cofferdam/glm/agent/workspace"
	"github.com/cofferdam-ml/cofferdam/internal/tiny/tasks"
)

// The policy of the judge.
const (
	turns      = 12
	turnTokens = 900
	window     = 8192
)

// result is how a repair went.
type result struct {
	passed bool
	cause  string // how the conversation ended
	turns  int
	usage  glm.Usage
	took   time.Duration
}

// repair lets the model work on a task. An error means that the harness failed,
// not the model.
func repair(ctx context.Context, m *glm.Model, pool *glm.KVPool, task tasks.Task, withhold bool) (r result, err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "cofferdam-eval-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, text := range task.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return r, err
		}
	}
	w, err := workspace.Open(dir)
	if err != nil {
		return r, err
	}
	defer w.Close()
	tools := w.Tools()
	if withhold {
		tools = mute(tools)
	}
	a, err := agent.New(m, pool, agent.Config{
		Tools: tools, Sampling: &glm.Sampling{}, Steps: turns, StepTokens: turnTokens,
		Repeats: turns * turnTokens, // the judge has no such limit
	})
	if err != nil {
		return r, err
	}
	defer a.Close()
	edited := false
	for ev, err := range a.Run(ctx, task.Request) {
		if err != nil {
			if r.cause, err = failure(err); err != nil {
				return r, err
			}
			break
		}
		switch ev := ev.(type) {
		case agent.Step:
			r.turns++
			r.usage.Prompt += ev.Usage.Prompt
			r.usage.Cached += ev.Usage.Cached
			r.usage.Output += ev.Usage.Output
		case agent.Result:
			edited = edited || ev.Call.Name == "edit_file"
		case agent.Done:
			r.cause = "answered"
		}
	}
	if !edited {
		r.cause += " without an edit"
	}
	for name, text := range task.Files {
		if name != "go.mod" && !strings.HasSuffix(name, "_test.go") {
			continue
		}
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != text {
			return r, fmt.Errorf("%s was changed: %w", name, err)
		}
	}
	if r.passed, err = w.Passes(ctx); r.passed {
		r.cause = "passed"
	}
	r.took = time.Since(began)
	return r, err
}

// failure names the end of a run that failed, if that is the model's fault.
func failure(err error) (cause string, harness error) {
	if b, ok := errors.AsType[*agent.BudgetError](err); ok {
		if b.Budget == "Steps" {
			return "turns used up", nil
		}
		return "turn too long", nil
	}
	if _, ok := errors.AsType[*glm.ContextError](err); ok {
		return "context used up", nil
	}
	return "", err
}

// mute runs tools and keeps what they say.
func mute(tools []agent.Tool) []agent.Tool {
	for i, t := range tools {
		tools[i].Call = func(ctx context.Context, arguments json.RawMessage) (string, error) {
			_, err := t.Call(ctx, arguments)
			if ctx.Err() != nil {
				return "", err
			}
			return "", nil
		}
	}
	return tools
}
