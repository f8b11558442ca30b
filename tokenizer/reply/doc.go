// Package reply reads what a GLM model generates: token ids in; reasoning, text
// and tool calls out, as they come.
//
// # Basics
//
// There are two types to know, [Tools] and [Parser]. Tools are the declared
// functions, compiled once; a Parser reads one message.
//
//	tools, err := reply.NewTools(reply.Tool{Name: "read", Parameters: schema})
//	p, err := reply.New(tok, tools, prompt)
//	for id := range sampled {
//		events = p.Append(events[:0], id)
//		...
//	}
//	events = p.Finish(events[:0])
//
// Events are [ReasoningDelta] and [TextDelta], pieces to show; [ToolCallDelta], a
// piece of a call that is still being written; and [ToolCall] or [BadToolCall],
// which end a call. However the ids are spread over calls of Append, the events
// are the same, once neighbouring deltas are put together.
//
// # The format
//
// A message is an optional reasoning, text, and tool calls:
//
//	<think>reasoning</think>text<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...</tool_call>
//
// GLM-4.5 and 4.6 write <think> themselves and put line ends between the tags.
// From GLM-4.7 on the prompt may end in <think> already, and the tags follow one
// another directly. One parser reads all of it: blanks between tags never
// matter, and [New] sees in the prompt how the message starts.
//
// # Tags are ids
//
// A tag is a control token. The parser knows it by its id, which the tokenizer
// gives it; text that spells a tag is text. So nothing that a user, a tool result
// or a file brought into the conversation becomes a call by being repeated in
// ordinary tokens, and a model that writes a whole call in ordinary tokens has
// written text.
//
// A model that works on code about tags does write them with the control tokens,
// inside a value. There a tag ends the value only if it is </arg_value> and what
// must follow follows: <arg_key> and a parameter, or </tool_call> and then another
// call or the end of the message. A call quoted whole in the value is skipped
// over. Everything else is part of the value.
//
// # Values
//
// On the wire a string stands for itself and everything else is JSON; nothing
// says which. The tool's schema does: type (or a list of types), enum and const,
// $ref, allOf, anyOf and oneOf, nullable. Where it allows strings only, the text
// is a string, "001" and "true" included. Where it allows no strings, the text
// must be JSON of an allowed kind. Where it allows both, or says nothing, the
// text is what it is as JSON, if that is allowed and not a string, and a string
// otherwise; a string that enum names wins over that. Numbers keep their digits,
// however many. A parameter that takes no strings and is not required may be null.
//
// The parser does not validate: whether a number is in range, a string in the
// enum, or a required argument there is for the tool to say.
//
// # Bad calls and mended calls
//
// What cannot be read with certainty is a [BadToolCall]. It has the raw text and
// a [CallError]; the reading goes on behind it. To be answered with an error
// message, so that the model can try again:
//
//   - a tool that was not declared; with no tools declared, every call;
//   - a parameter that the schema does not list, if additionalProperties is
//     false or it does not look like a name. Otherwise it is taken, with the type
//     that additionalProperties gives or any;
//   - a parameter given twice, a value of the wrong kind, text that is not UTF-8;
//   - tags in the wrong order, and a message that ends inside a call.
//
// Slips that leave one reading and lose nothing are mended, and
// [ToolCall.Repaired] names the first of them: a single tag before a value that is
// missing or stands twice, unless the value behind a missing one holds tags of a
// call; a missing end, if the model ended the message itself, all required
// arguments are there and no tag stands in the last value; True, False and None;
// JSON that was escaped once more; a call written as JSON. A host that wants no
// mended calls can refuse those that are not [Sound]. REPORTS.md goes through 48
// failures seen in the wild.
//
// # Calls inside the reasoning
//
// Models write calls before </think>. Such a call counts if the model ends the
// message with it. If the reasoning goes on, or text or a call outside of it
// follows, or the message is cut off, it was a thought and comes as a
// [ReasoningDelta].
//
// # Caveats
//
// Deltas of a call are not a call. Only [ToolCall] is; its deltas are void if a
// [BadToolCall] of the same Index comes instead.
//
// Text after a call is held back until the message ends, and the call with it: it
// may be the rest of the last value, if that quotes </arg_value></tool_call>. If
// the end of the value comes it was, if the message just ends it was text, and if
// the message is cut off the call is bad, text and all.
//
// A quoted tag that looks in every way like structure is taken for it. Inside a
// value, the control tokens </arg_value><arg_key>K</arg_key> with K a parameter
// not given yet begin the next argument, and </arg_value></tool_call> end the call
// if another <tool_call> follows. And the first tags of a call, up to <arg_value>,
// quoted without its end keep the value open: the call is bad then. Text tokens
// are safe.
//
// With schemas that allow strings and other kinds, the string "5" and the number
// 5 look alike on the wire, and the number is assumed.
//
// A Parser holds the call it reads, once as ids and once as JSON, and nothing
// else that grows; with a call inside the reasoning, all such calls in a row. It
// is for one goroutine; Tools may be shared.
package reply
