package reply_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
	"github.com/cofferdam-ml/cofferdam/tokenizer/reply"
)

// smallest is a tokenizer of the 256 bytes and the control tokens. A program has
// the one of its model, from tokenizer.Load.
func smallest() *tokenizer.Tokenizer {
	var ranks strings.Builder
	for i := range 256 {
		fmt.Fprintf(&ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	tok, err := tokenizer.ParseRanks([]byte(ranks.String()), tokenizer.GLMAdded(256))
	if err != nil {
		log.Fatal(err)
	}
	return tok
}

// sample stands for a model: it gives the ids of a message one at a time.
func sample(tok *tokenizer.Tokenizer, message string) func(yield func(int32) bool) {
	return func(yield func(int32) bool) {
		for _, id := range tok.EncodeWithAdded(nil, message) {
			if !yield(id) {
				return
			}
		}
	}
}

func Example() {
	tok := smallest()
	prompt := tok.EncodeWithAdded(nil, "[gMASK]<sop><|user|>Weather in Köln?<|assistant|><think>")

	tools, err := reply.NewTools(reply.Tool{
		Name: "weather",
		Parameters: []byte(`{"type":"object","properties":{
			"city":{"type":"string"}, "zip":{"type":"string"}, "days":{"type":"integer"}}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	p, err := reply.New(tok, tools, prompt)
	if err != nil {
		log.Fatal(err)
	}

	var thought, text strings.Builder
	handle := func(events []reply.Event) {
		for _, e := range events {
			switch e := e.(type) {
			case reply.ReasoningDelta:
				thought.WriteString(e.Text)
			case reply.TextDelta:
				text.WriteString(e.Text)
			case reply.ToolCall:
				fmt.Printf("thought: %s\ntext: %s\ncall: %s %s\n", &thought, &text, e.Name, e.Arguments)
			}
		}
	}
	var events []reply.Event
	for id := range sample(tok, "Look it up.</think>One moment.<tool_call>weather"+
		"<arg_key>city</arg_key><arg_value>Köln</arg_value><arg_key>zip</arg_key><arg_value>050667</arg_value>"+
		"<arg_key>days</arg_key><arg_value>3</arg_value></tool_call><|observation|>") {
		events = p.Append(events[:0], id)
		handle(events)
	}
	handle(p.Finish(events[:0]))
	// Output:
	// thought: Look it up.
	// text: One moment.
	// call: weather {"city":"Köln","zip":"050667","days":3}
}

// A call shows up while it is written. Deltas of one call add up to its
// arguments.
func ExampleToolCallDelta() {
	tok := smallest()
	tools, err := reply.NewTools(reply.Tool{Name: "write", Parameters: []byte(`{"properties":{"text":{"type":"string"}}}`)})
	if err != nil {
		log.Fatal(err)
	}
	p, err := reply.New(tok, tools, nil)
	if err != nil {
		log.Fatal(err)
	}
	for id := range sample(tok, "<tool_call>write<arg_key>text</arg_key><arg_value>a\nb</arg_value></tool_call><|observation|>") {
		for _, e := range p.Append(nil, id) {
			switch e := e.(type) {
			case reply.ToolCallDelta:
				fmt.Printf("%s|%s\n", e.Name, e.Arguments)
			case reply.ToolCall:
				fmt.Printf("whole: %s\n", e.Arguments)
			}
		}
	}
	// Output:
	// write|{
	// |"text":
	// |"
	// |a
	// |\n
	// |b
	// |"}
	// whole: {"text":"a\nb"}
}

// A bad call is an event like any other. The model gets it back as an error and
// may try again.
func ExampleBadToolCall() {
	tok := smallest()
	tools, err := reply.NewTools(reply.Tool{Name: "wait", Parameters: []byte(`{"properties":{"seconds":{"type":"integer"}},"required":["seconds"]}`)})
	if err != nil {
		log.Fatal(err)
	}
	p, err := reply.New(tok, tools, nil)
	if err != nil {
		log.Fatal(err)
	}
	message := tok.EncodeWithAdded(nil, "<tool_call>wait<arg_key>seconds</arg_key><arg_value>a few</arg_value></tool_call>"+
		"<tool_call>sleep</tool_call><|observation|>")
	for _, e := range p.Append(nil, message...) {
		if bad, ok := e.(reply.BadToolCall); ok {
			fmt.Println(bad.Err)
			fmt.Println(bad.Name, bad.Raw, errors.Is(bad.Err, reply.UnknownTool))
		}
	}
	// Output:
	// reply: tool call 0, argument 1, byte 52: a value has the wrong type: want an integer, have text that is no JSON value
	// wait <tool_call>wait<arg_key>seconds</arg_key><arg_value>a few</arg_value></tool_call> false
	// reply: tool call 1, byte 16: no such tool
	// sleep <tool_call>sleep</tool_call> true
}

// A model that edits code about tags writes them inside a value, with the very
// ids of the structure.
func Example_tagsInValues() {
	tok := smallest()
	tools, err := reply.NewTools(reply.Tool{Name: "write", Parameters: []byte(`{"properties":{"text":{"type":"string"}}}`)})
	if err != nil {
		log.Fatal(err)
	}
	p, err := reply.New(tok, tools, nil)
	if err != nil {
		log.Fatal(err)
	}
	message := tok.EncodeWithAdded(nil, `<tool_call>write<arg_key>text</arg_key>`+
		`<arg_value>end := "</arg_value></tool_call>" // of a call</arg_value></tool_call><|observation|>`)
	for _, e := range p.Append(nil, message...) {
		if e, ok := e.(reply.ToolCall); ok {
			fmt.Printf("%s\n", e.Arguments)
		}
	}
	// Output:
	// {"text":"end := \"</arg_value></tool_call>\" // of a call"}
}
