package reply

import (
	"fmt"
	"strings"
)

// A Fault is a kind of slip in a tool call. It is an error, so that
// errors.Is(bad.Err, reply.UnknownTool) works.
type Fault uint8

// The faults. Those in the first group are mended; they are what
// [ToolCall.Repaired] can say. A call with one of the others is a [BadToolCall].
const (
	Sound Fault = iota // no fault

	RepeatedTag       // <tool_call>, <arg_key> or </arg_key> stands twice
	WrongOpeningTag   // <tool_call> in the place of the first <arg_key>
	MissingKeyOpen    // no <arg_key> before a declared parameter
	MissingKeyClose   // no </arg_key> after a parameter
	MissingValueOpen  // no <arg_value> before a value
	MissingValueClose // no </arg_value> after the last value
	MissingCallClose  // no </tool_call> at the end of the message
	LooseValue        // True, False, None, or JSON that was escaped once more
	JSONCall          // the call was written as JSON

	UnknownTool      // no declared tool has this name
	UnknownParameter // the schema allows no such parameter
	RepeatedKey      // a parameter has two values
	BadKey           // what stands for a parameter is not a name
	BadValue         // the value has no type that the schema allows
	BadUTF8          // a name or a value is not UTF-8
	StrayTag         // a tag where it has no meaning
	BadJSON          // the call was written as JSON and is not a call
	Unfinished       // the message ended inside the call
	Torn             // what follows the call may belong to its last value
)

var faultText = [...]string{
	Sound:             "no fault",
	RepeatedTag:       "a tag stands twice",
	WrongOpeningTag:   "<tool_call> in the place of <arg_key>",
	MissingKeyOpen:    "<arg_key> is missing",
	MissingKeyClose:   "</arg_key> is missing",
	MissingValueOpen:  "<arg_value> is missing",
	MissingValueClose: "</arg_value> is missing",
	MissingCallClose:  "</tool_call> is missing",
	LooseValue:        "a value is not plain JSON",
	JSONCall:          "written as JSON",
	UnknownTool:       "no such tool",
	UnknownParameter:  "no such parameter",
	RepeatedKey:       "a parameter has two values",
	BadKey:            "not the name of a parameter",
	BadValue:          "a value has the wrong type",
	BadUTF8:           "not UTF-8",
	StrayTag:          "a tag in the wrong place",
	BadJSON:           "written as JSON and not a call",
	Unfinished:        "the message ended inside the call",
	Torn:              "what follows may belong to the last value",
}

func (f Fault) Error() string { return f.String() }

// String describes the fault in a few words.
func (f Fault) String() string {
	if int(f) < len(faultText) {
		return faultText[f]
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

// A CallError says why a call is bad. Its text names the place and the kinds
// involved and holds nothing of the output; the output is in [BadToolCall.Raw].
type CallError struct {
	Fault  Fault
	Index  int    // the call, from 0
	Arg    int    // the argument concerned, from 1; 0 if none
	Offset int    // the byte of Raw where it was noticed
	Want   string // what would have been right there, "" if that says nothing
	Have   string // what stands there: a tag, or a kind of value
}

func (e *CallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "reply: tool call %d", e.Index)
	if e.Arg > 0 {
		fmt.Fprintf(&b, ", argument %d", e.Arg)
	}
	fmt.Fprintf(&b, ", byte %d: %v", e.Offset, e.Fault)
	if e.Want != "" {
		fmt.Fprintf(&b, ": want %s, have %s", e.Want, e.Have)
	}
	return b.String()
}

// Unwrap returns the fault.
func (e *CallError) Unwrap() error { return e.Fault }

// A VocabularyError says that a tokenizer lacks a control token of GLM, so that
// no reply can be read with it.
type VocabularyError struct{ Missing string }

func (e *VocabularyError) Error() string {
	return "reply: the vocabulary has no token " + e.Missing
}

// A SchemaError says what is wrong with the declaration of a tool.
type SchemaError struct {
	Tool int    // index in the list given to NewTools
	Path string // JSON pointer into Parameters, "" for the whole; or "name"
	Want string
	Have string
}

func (e *SchemaError) Error() string {
	path := e.Path
	if path == "" {
		path = "parameters"
	}
	return fmt.Sprintf("reply: tool %d: %s: want %s, have %s", e.Tool, path, e.Want, e.Have)
}
