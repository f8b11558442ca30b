package agent

import (
	"errors"
	"fmt"

	"github.com/cofferdam-ml/cofferdam/glm"
)

var (
	// ErrBudget reports a run that used up what it was given. The detail is a
	// *BudgetError. Continue goes on with a new budget.
	ErrBudget = errors.New("agent: budget used up")

	// ErrRepeat reports a call that keeps failing in the same way. The detail is
	// a *RepeatError.
	ErrRepeat = errors.New("agent: the same call keeps failing")

	// ErrTranscript reports a transcript that cannot be read, written or gone on
	// with. The detail is a *TranscriptError.
	ErrTranscript = errors.New("agent: transcript")

	// ErrBusy reports a second run of an agent that has one.
	ErrBusy = errors.New("agent: busy")

	// ErrNothingToDo reports a Continue of a conversation in which the model has
	// nothing to answer.
	ErrNothingToDo = errors.New("agent: nothing to go on with")
)

// BudgetError names the field of Config that ended a run, and its value.
type BudgetError struct {
	Budget string // "Steps", "StepTokens" or "Tokens"
	Limit  int
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("agent: budget used up: %s is %d", e.Budget, e.Limit)
}

// Unwrap returns ErrBudget.
func (e *BudgetError) Unwrap() error { return ErrBudget }

// RepeatError says which tool was called in vain, and how often.
type RepeatError struct {
	Tool  string // "" if the call named none
	Times int
}

func (e *RepeatError) Error() string {
	return fmt.Sprintf("agent: the same call of tool %q failed %d times in the same way", e.Tool, e.Times)
}

// Unwrap returns ErrRepeat.
func (e *RepeatError) Unwrap() error { return ErrRepeat }

// TranscriptError says where a transcript is not what it must be. It holds no text
// of the conversation.
type TranscriptError struct {
	File       string
	Line       int // 0: the file as such
	Want, Have string
	Err        error // cause, or nil
}

func (e *TranscriptError) Error() string {
	s := "agent: transcript " + e.File
	if e.Line > 0 {
		s += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Want != "" {
		s += fmt.Sprintf(": want %s, have %s", e.Want, e.Have)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrTranscript and the cause.
func (e *TranscriptError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrTranscript}
	}
	return []error{ErrTranscript, e.Err}
}

// An ArgumentError is the error of a tool whose arguments do not fit its schema.
// It goes to the model.
type ArgumentError struct {
	Field      string // path of a property, "" for the whole
	Want, Have string
}

func (e *ArgumentError) Error() string {
	s := "wrong arguments: "
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + "want " + e.Want + ", have " + e.Have
}

func invalid(field, format string, args ...any) error {
	return &glm.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
