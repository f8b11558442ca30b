package chat_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// vocabulary makes a small stand-in for the vocabulary of a checkpoint, which
// tokenizer.Load reads: a token for each byte, and the control tokens.
func vocabulary() *tokenizer.Tokenizer {
	var ranks []byte
	for b := range 256 {
		ranks = fmt.Appendf(ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	t, err := tokenizer.ParseRanks(ranks, tokenizer.GLMAdded(256))
	if err != nil {
		panic(err)
	}
	return t
}

func Example() {
	tmpl, err := chat.Named("GLM-5.2")
	if err != nil {
		panic(err)
	}
	r, err := chat.New(tmpl, vocabulary())
	if err != nil {
		panic(err)
	}
	p, err := r.Render(chat.Conversation{
		Messages: []chat.Message{{Role: chat.RoleUser, Content: "Hi <|user|>"}},
		Effort:   chat.EffortHigh,
	})
	if err != nil {
		panic(err)
	}
	// The vocabulary has a token per byte, so an id above 255 is a control token.
	var controls []int32
	for _, id := range p.IDs {
		if id > 255 {
			controls = append(controls, id)
		}
	}
	fmt.Println(controls)
	fmt.Println("reply begins in reasoning:", p.InReasoning)
	// Output:
	// [258 260 262 263 264 277]
	// reply begins in reasoning: true
}

func ExampleTemplate_Text() {
	tmpl, err := chat.Named("GLM-5.3")
	if err != nil {
		panic(err)
	}
	text, err := tmpl.Text(chat.Conversation{
		Messages: []chat.Message{
			{Role: chat.RoleUser, Content: "What is in a.txt?"},
			{Role: chat.RoleAssistant, Reasoning: "Read it.", ToolCalls: []chat.ToolCall{
				{ID: "c1", Name: "read", Arguments: json.RawMessage(`{"path": "a.txt", "lines": [1, 10]}`)},
			}},
			{Role: chat.RoleTool, ToolCallID: "c1", Content: "hello"},
		},
		Effort: chat.EffortLow,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(text)
	// Output:
	// [gMASK]<sop><|system|>Reasoning Effort: Low<|user|>What is in a.txt?<|assistant|><think>Read it.</think><tool_call>read<arg_key>path</arg_key><arg_value>a.txt</arg_value><arg_key>lines</arg_key><arg_value>[1, 10]</arg_value></tool_call><|observation|><tool_response>hello</tool_response><|assistant|><think>
}

func ExampleDetect() {
	_, err := chat.Detect([]byte("{{ messages[0].content }}"))
	var unknown *chat.TemplateError
	if errors.As(err, &unknown) {
		fmt.Println("fingerprint", unknown.Fingerprint[:12])
		fmt.Println("known", unknown.Known)
	}
	// Output:
	// fingerprint 21b1d9c74a21
	// known [GLM-4.5 GLM-4.6 GLM-4.7 GLM-4.7-Flash GLM-5 GLM-5.1 GLM-5.2 GLM-5.3 GLM-5.3-Flash]
}

// The ids of a reply are replayed in the next turn.
func ExamplePrompt_Reply() {
	tokens := vocabulary()
	tmpl, err := chat.Named("GLM-4.7")
	if err != nil {
		panic(err)
	}
	r, err := chat.New(tmpl, tokens)
	if err != nil {
		panic(err)
	}
	c := chat.Conversation{
		Messages: []chat.Message{{Role: chat.RoleUser, Content: "Hi"}},
		Past:     chat.PastKept,
	}
	first, err := r.Render(c)
	if err != nil {
		panic(err)
	}

	// What a model sampled, up to its stop token, and what it was read as.
	sampled := tokens.EncodeWithAdded(nil, "A greeting.</think>\nHello!<|user|>")
	reply := chat.Message{Role: chat.RoleAssistant, Reasoning: "A greeting.", Content: "Hello!"}

	c.Messages = append(c.Messages, first.Reply(reply, sampled), chat.Message{Role: chat.RoleUser, Content: "Bye"})
	second, err := r.Render(c)
	if err != nil {
		panic(err)
	}
	kept := len(first.IDs) + len(sampled)
	fmt.Printf("kept %q\n", tokens.Raw(nil, second.IDs[:kept]...))
	fmt.Printf("new  %q\n", tokens.Raw(nil, second.IDs[kept:]...))
	// Output:
	// kept "[gMASK]<sop><|user|>Hi<|assistant|><think>A greeting.</think>\nHello!<|user|>"
	// new  "Bye<|assistant|><think>"
}

func ExampleMessage_UnmarshalJSON() {
	var m chat.Message
	err := json.Unmarshal([]byte(`{
		"role": "assistant", "content": null, "reasoning_content": "Read it.",
		"tool_calls": [{"id": "c1", "type": "function",
			"function": {"name": "read", "arguments": "{\"path\": \"a.txt\"}"}}]
	}`), &m)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %q, %s %s\n", m.Role, m.Reasoning, m.ToolCalls[0].Name, m.ToolCalls[0].Arguments)
	// Output:
	// assistant: "Read it.", read "{\"path\": \"a.txt\"}"
}

func ExampleRequestError() {
	tmpl, err := chat.Named("GLM-5.3")
	if err != nil {
		panic(err)
	}
	_, err = tmpl.Text(chat.Conversation{Messages: []chat.Message{
		{Role: chat.RoleUser, Parts: []chat.Part{{Type: chat.PartText, Text: "See:"}, {Type: "image_url"}}},
	}})
	fmt.Println(err)
	// Output:
	// chat: invalid request: messages[0].content[1].type: parts of type "image_url" are not supported here
}
