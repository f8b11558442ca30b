package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/agent"
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
