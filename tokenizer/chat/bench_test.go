package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// longConversation is a session of a coding agent: 200 messages, ten tools, files
// that are read and written.
func longConversation() Conversation {
	file := strings.Repeat("func (p *parser) next() (token, error) {\n\tif p.pos >= len(p.data) {\n\t\treturn eof, nil\n\t}\n"+
		"\t// 你好: comments, \"quotes\" and numbers such as 1234567\n\tp.pos++\n\treturn p.scan(0x1F, 3.14159)\n}\n\n", 8)
	c := Conversation{Past: PastKept}
	for i := range 10 {
		c.Tools = append(c.Tools, Tool{
			Name: fmt.Sprintf("tool_%d", i), Description: "Reads a file and returns its lines.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"Absolute path."},"limit":{"type":"integer"}},"required":["path"]}`),
		})
	}
	c.Messages = []Message{{Role: RoleSystem, Content: strings.Repeat("You are a careful engineer. ", 40)}}
	for i := 0; len(c.Messages) < 197; i++ {
		id := fmt.Sprintf("call_%d", i)
		args, err := json.Marshal(map[string]any{"path": "/src/parser.go", "content": file, "line": i})
		if err != nil {
			panic(err)
		}
		c.Messages = append(c.Messages,
			Message{Role: RoleUser, Content: "Now the next function, please."},
			Message{Role: RoleAssistant, Reasoning: "I should look at the file first.", Content: "Let me see.",
				ToolCalls: []ToolCall{{ID: id, Name: "tool_1", Arguments: args}}},
			Message{Role: RoleTool, ToolCallID: id, Content: file},
			Message{Role: RoleAssistant, Reasoning: "That is clear.", Content: "It returns eof at the end."})
	}
	for len(c.Messages) < 200 {
		c.Messages = append(c.Messages, Message{Role: RoleUser, Content: "Go on."})
	}
	return c
}

func BenchmarkRender(b *testing.B) {
	c := longConversation()
	v := bigVocabulary(b)
	for _, name := range []string{"GLM-4.5", "GLM-5.3"} {
		r := renderer(b, name, v)
		text, err := r.template.Text(c)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/ids", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			tokens := 0
			for b.Loop() {
				p, err := r.Render(c)
				if err != nil {
					b.Fatal(err)
				}
				tokens = len(p.IDs)
			}
			b.ReportMetric(float64(tokens), "tokens/op")
		})
		b.Run(name+"/text", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.template.Text(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
