package agent

import (
	"encoding/json"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// An Event is one element of a run: [ReasoningDelta], [TextDelta], [CallDelta],
// [Call], [Step], [Result], [ContextLow] or [Done].
type Event interface{ event() }

// ReasoningDelta is the next piece of what the model thinks.
type ReasoningDelta struct{ Text string }

// TextDelta is the next piece of what the model says.
type TextDelta struct{ Text string }

// CallDelta is the next piece of a call that is still being written; for display.
// The first delta of a call has its Name.
type CallDelta struct {
	Index           int // calls of a reply count from 0
	Name, Arguments string
}

// Call is a whole call, before it runs. Its Result follows after the Step.
type Call struct {
	Index     int
	Name      string          // as the model wrote it
	Arguments json.RawMessage // an object, nil if Bad
	Bad       error           // why the call could not be read; it is answered, not run
}

// Step ends a reply.
type Step struct {
	Number  int       // steps of a run count from 1
	Usage   glm.Usage // Cached of Prompt ids were not computed again
	Elapsed time.Duration
}

// Result is what a call returned, in the order of the calls.
type Result struct {
	Call   Call
	Text   string // what the model reads
	Failed bool   // Text says what went wrong
	// Elapsed is how long the tool ran, 0 for a call that was not run.
	Elapsed time.Duration
}

// ContextLow says, once in a run, that prompts come near to what the pool can
// hold: three quarters of Limit are taken, or no two more replies fit.
type ContextLow struct {
	Prompt int // ids of the next prompt
	Limit  int // prompt and reply together
}

// Done ends a run that came to an answer.
type Done struct {
	Text  string
	Steps int
	Usage glm.Usage // of all steps together
}

func (ReasoningDelta) event() {}
func (TextDelta) event()      {}
func (CallDelta) event()      {}
func (Call) event()           {}
func (Step) event()           {}
func (Result) event()         {}
func (ContextLow) event()     {}
func (Done) event()           {}
