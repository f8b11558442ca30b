package reply

import "encoding/json"

// An Event is one of [ReasoningDelta], [TextDelta], [ToolCallDelta], [ToolCall]
// and [BadToolCall].
type Event interface{ event() }

// A ReasoningDelta is the next piece of what stands between <think> and
// </think>, to the byte. It is whole UTF-8; bytes that are none come as U+FFFD.
type ReasoningDelta struct{ Text string }

// A TextDelta is the next piece of the answer. The answer is trimmed of blanks
// and line ends at both ends, as every chat template trims it when it becomes
// history; inside nothing is touched. It is whole UTF-8; bytes that are none come
// as U+FFFD.
type TextDelta struct{ Text string }

// A ToolCallDelta is the next piece of a call that is still being written. The
// first delta of a call has its Name, whole and declared; the later ones have
// none. The Arguments of all deltas of one Index, put together, are the
// Arguments of the [ToolCall] that follows, to the byte.
//
// Deltas are for display. A call that turns out to be bad ends in a
// [BadToolCall] with the same Index, and its deltas must be forgotten.
type ToolCallDelta struct {
	Index     int
	Name      string
	Arguments string
}

// A ToolCall is a whole call of a declared tool.
type ToolCall struct {
	// Index counts the calls of a message from 0, good and bad ones alike.
	Index int
	Name  string
	// Arguments is a JSON object with the keys in the order of the call and
	// values of the types that the tool's schema allows.
	Arguments json.RawMessage
	// Raw is the text of the call from <tool_call> to </tool_call>, to the byte.
	Raw string
	// Repaired is the first slip of the model that was mended, [Sound] if there
	// was none. Only slips are mended that leave one reading and lose nothing.
	Repaired Fault
}

// A BadToolCall is a call that could not be read, or not with certainty. It is
// for telling the model so; it must not be run.
type BadToolCall struct {
	Index int
	// Name is the tool that the model named, as it named it; "" if it came to
	// none.
	Name string
	// Raw is the text of the call from <tool_call> on, to the byte.
	Raw string
	// Err says what is wrong and where. Its text holds nothing the model wrote.
	Err *CallError
}

func (ReasoningDelta) event() {}
func (TextDelta) event()      {}
func (ToolCallDelta) event()  {}
func (ToolCall) event()       {}
func (BadToolCall) event()    {}
