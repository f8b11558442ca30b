package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/agent"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
	"github.com/cofferdam-ml/cofferdam/internal/tiny/tasks"
)

// What the model is to blame for has a name; everything else stops the evaluation.
func TestFailure(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&agent.BudgetError{Budget: "Steps", Limit: turns}, "turns used up"},
		{&agent.BudgetError{Budget: "StepTokens", Limit: turnTokens}, "turn too long"},
		{fmt.Errorf("wrapped: %w", &glm.ContextError{Prompt: 9000, Max: 8192}), "context used up"},
		{glm.ErrDevice, ""}, {context.Canceled, ""}, {&agent.RepeatError{Tool: "x", Times: 3}, ""},
	} {
		cause, err := failure(test.err)
		if cause != test.want || (err != nil) != (test.want == "") || err != nil && !errors.Is(err, test.err) {
			t.Errorf("%v: %q, %v", test.err, cause, err)
		}
	}
}

// Muted tools do what they do and say nothing, not even that they failed.
func TestMute(t *testing.T) {
	calls := 0
	tools := mute([]agent.Tool{
		agent.Func("good", "", func(context.Context, struct{}) (string, error) { calls++; return "secret", nil }),
		agent.Func("bad", "", func(context.Context, struct{}) (string, error) { calls++; return "", errors.New("secret") }),
	})
	for _, tool := range tools {
		if text, err := tool.Call(t.Context(), nil); text != "" || err != nil {
			t.Errorf("%s: %q, %v", tool.Name, text, err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tools[1].Call(ended, nil); err == nil {
		t.Error("the end of the context is muted, too")
	}
}

// The embedded model repairs tasks, and without results it repairs none.
func TestRepair(t *testing.T) {
	if testing.Short() {
		t.Skip("lets a model repair packages")
	}
	m, err := demo.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: window, AllowSmallerPool: true})
	if err != nil {
		t.Fatal(err)
	}
	list, err := tasks.Short()
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, task := range list[:2] {
		r, err := repair(t.Context(), m, pool, task, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", task.Name, r)
		if r.turns == 0 || r.usage.Output == 0 || r.cause == "" {
			t.Errorf("%s: nothing happened", task.Name)
		}
		if r.passed {
			passed++
		}
	}
	if passed == 0 {
		t.Error("no task is repaired")
	}
	if r, err := repair(t.Context(), m, pool, list[0], true); err != nil || r.passed {
		t.Errorf("without results: %+v, %v", r, err)
	}
}
