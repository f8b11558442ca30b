package kvcache

import (
	"errors"
	"fmt"
	"time"
)

// Refusals. The request was not admitted, and nothing was computed for it.
var (
	// ErrContextExceedsModel: longer than the model's (or the configured)
	// context. Comes as a [*ContextError].
	ErrContextExceedsModel = errors.New("kvcache: context exceeds the model")
	// ErrContextExceedsPool: longer than one session can ever own in this pool
	// or in a peer's. Comes as a [*ContextError].
	ErrContextExceedsPool = errors.New("kvcache: context exceeds the pool")
	// ErrPoolExhausted: it fits, but not now; the queue is full or the wait
	// expired. Comes as an [*ExhaustedError].
	ErrPoolExhausted = errors.New("kvcache: pool exhausted")
	// ErrPeerMismatch: two pools cannot hand sequences to each other.
	ErrPeerMismatch = errors.New("kvcache: peer mismatch")
)

// Ends. The handle is of no further use.
var (
	ErrPoolClosed    = errors.New("kvcache: pool closed")
	ErrSessionClosed = errors.New("kvcache: session closed")
	// ErrEnded: the lease has reached its terminal state; [Lease.End] tells it.
	ErrEnded = errors.New("kvcache: lease ended")
	// ErrRequeued: under [Clamp] the pages went to an older request. This is no
	// end: [Lease.Readmit] waits for room, and the tokens are computed again.
	ErrRequeued = errors.New("kvcache: lease requeued")
)

// Integrity. A guard stopped a read or write that must not happen; each comes
// as an [*IntegrityError].
var (
	// ErrStalePage: a page has another owner, generation or content than its
	// handle says.
	ErrStalePage = errors.New("kvcache: stale page")
	// ErrUnwritten: a read above the mark.
	ErrUnwritten = errors.New("kvcache: unwritten position")
	// ErrHandoff: a manifest differs from its ticket.
	ErrHandoff = errors.New("kvcache: hand-off differs from its ticket")
	// ErrBinding: uploaded arrays or results are not those of the step.
	ErrBinding = errors.New("kvcache: binding")
)

// ContextError says which limit a request, or a configuration, exceeds.
type ContextError struct {
	Prompt int   // tokens of the prompt
	Output int   // tokens of output asked for
	Max    int   // the limit in force: prompt and output together
	Pool   int   // what one session can own in this pool
	Limit  Limit // which limit is the smallest
}

func (e *ContextError) Error() string {
	return fmt.Sprintf("kvcache: this %s's maximum context length is %d tokens, but %d tokens were asked for (%d in the prompt, %d for the output); one session can own %d tokens of the pool",
		e.Limit, e.Max, e.Prompt+e.Output, e.Prompt, e.Output, e.Pool)
}

// Unwrap returns [ErrContextExceedsModel] or [ErrContextExceedsPool].
func (e *ContextError) Unwrap() error {
	if e.Limit == LimitModel {
		return ErrContextExceedsModel
	}
	return ErrContextExceedsPool
}

// ExhaustedError refuses a request that fits the pool but not now. What others
// hold is not told.
type ExhaustedError struct {
	Need       int           // tokens the request must own before it can start
	RetryAfter time.Duration // when to try again: the longest wait of the queue
}

func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("kvcache: pool exhausted: %d tokens needed, retry after %v", e.Need, e.RetryAfter)
}

// Unwrap returns [ErrPoolExhausted].
func (e *ExhaustedError) Unwrap() error { return ErrPoolExhausted }

// IntegrityError says what a guard expected and what it found. It holds
// numbers of the pool's own, never a token.
type IntegrityError struct {
	Kind       error // ErrStalePage, ErrUnwritten, ErrHandoff or ErrBinding
	Position   int   // first position of the sequence concerned, -1: none
	Want, Have string
}

func (e *IntegrityError) Error() string {
	if e.Position < 0 {
		return fmt.Sprintf("%v: want %s, have %s", e.Kind, e.Want, e.Have)
	}
	return fmt.Sprintf("%v: position %d: want %s, have %s", e.Kind, e.Position, e.Want, e.Have)
}

// Unwrap returns Kind.
func (e *IntegrityError) Unwrap() error { return e.Kind }

// FieldError names the field of a [Config] or [Request] that cannot be.
type FieldError struct {
	Field      string
	Want, Have string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("kvcache: %s: want %s, have %s", e.Field, e.Want, e.Have)
}

// Cause is the terminal state of a request. The first one wins.
type Cause uint8

const (
	CauseNone      Cause = iota // not ended
	CauseStop                   // a stop id or stop string
	CauseLength                 // MaxTokens reached
	CauseContext                // no room to grow (Clamp only)
	CauseToolCalls              // the model called tools
	CauseCancelled              // the caller went away
	CauseFailed                 // an error after admission
	CauseRefused                // an error before any work
	CauseClosed                 // session or pool closed
	causes
)

func (c Cause) String() string {
	names := [causes]string{"none", "stop", "length", "context", "tool_calls", "cancelled", "failed", "refused", "closed"}
	if c < causes {
		return names[c]
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}
