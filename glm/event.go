package glm

import (
	"encoding/json"

	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// An Event is one element of a stream: [ReasoningDelta], [TextDelta],
// [ToolCallDelta], [ToolCall], [BadToolCall], [Token] or [Finish].
type Event interface{ event() }

// ReasoningDelta is the next piece of what the model thinks before it answers.
type ReasoningDelta struct{ Text string }

// TextDelta is the next piece of the answer. Deltas are whole UTF-8.
type TextDelta struct{ Text string }

// ToolCallDelta is the next piece of a call that is still being written; for
// display. The first delta of a call has its Name. The Arguments of all deltas of
// an Index, put together, are those of the ToolCall that follows.
type ToolCallDelta struct {
	Index           int // calls of a reply count from 0
	Name, Arguments string
}

// ToolCall is a whole call of a declared tool. ID is minted here; put it into
// the ToolCallID of the message that answers the call.
type ToolCall struct {
	Index     int
	ID        string
	Name      string
	Arguments json.RawMessage // an object; values are of the types the tool's schema allows
}

// BadToolCall is a call that could not be read with certainty, or names no
// declared tool. It must not be run; tell the model what is wrong instead.
type BadToolCall struct {
	Index int
	Name  string // as the model wrote it, "" if it came to none
	Raw   string // the text of the call, to the byte
	Err   error  // what is wrong and where; holds no text of the model
}

// Token is a sampled id. Tokens are reported for requests of ids, and for
// requests that ask for log-probabilities.
type Token struct {
	ID      int32
	LogProb float32     // natural logarithm, after penalties and bias, before temperature
	Top     []TokenProb // the most likely ids, as many as Sampling.TopLogProbs asks
}

// TokenProb is an id and the natural logarithm of its probability.
type TokenProb struct {
	ID      int32
	LogProb float32
}

// Finish ends every stream of an admitted request.
type Finish struct {
	Reason  FinishReason
	Usage   Usage
	Message Message // the reply, to be appended to the conversation as it is
}

func (ReasoningDelta) event() {}
func (TextDelta) event()      {}
func (ToolCallDelta) event()  {}
func (ToolCall) event()       {}
func (BadToolCall) event()    {}
func (Token) event()          {}
func (Finish) event()         {}

// FinishReason says why a generation ended.
type FinishReason string

const (
	FinishStop      FinishReason = "stop"       // the model ended its turn, or a stop string
	FinishLength    FinishReason = "length"     // MaxTokens were sampled
	FinishContext   FinishReason = "context"    // no room to grow; admission Clamp only
	FinishToolCalls FinishReason = "tool_calls" // the model waits for results of its calls
	FinishCancelled FinishReason = "cancelled"  // the context ended, or the loop was left
	FinishFailed    FinishReason = "failed"     // an error follows
)

// Usage counts the tokens of one generation. Cached + computed prompt tokens =
// Prompt, always.
type Usage struct {
	Prompt    int // ids fed before the first sampled one
	Cached    int // of these, taken from pages computed earlier
	Output    int // sampled ids
	Reasoning int // of these, sampled while the model was thinking
}

// The conversation, as package chat renders it.
type (
	// Message is one turn of a conversation.
	Message = chat.Message
	// Tool is a function that the model may call.
	Tool = chat.Tool
	// Call is a tool call inside a Message.
	Call = chat.ToolCall
	// Effort says how much the model should think.
	Effort = chat.Effort
	// Role says who speaks.
	Role = chat.Role
)

// Roles and efforts.
const (
	System    = chat.RoleSystem
	Developer = chat.RoleDeveloper
	User      = chat.RoleUser
	Assistant = chat.RoleAssistant
	ToolRole  = chat.RoleTool

	EffortDefault = chat.EffortDefault
	EffortNone    = chat.EffortNone
	EffortLow     = chat.EffortLow
	EffortMedium  = chat.EffortMedium
	EffortHigh    = chat.EffortHigh
	EffortMax     = chat.EffortMax
)
