package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

func TestInvalidRequests(t *testing.T) {
	user := Message{Role: RoleUser, Content: "Hi"}
	reference := func(name string) []Part { return []Part{{Type: PartToolReference, Name: name}} }
	secret := strings.Repeat("secret", 20)
	tests := []struct {
		template string
		c        Conversation
		field    string
		reason   string
	}{
		{"GLM-5.3", Conversation{}, "messages", "needs a message"},
		{"GLM-5.3", Conversation{Messages: []Message{user}, Effort: "extreme"}, "effort", "extreme"},
		{"GLM-5.3", Conversation{Messages: []Message{user}, Past: 3}, "past", "constants"},
		{"GLM-4.5", dialog(Message{Role: "function"}), "messages[1].role", "function"},
		{"GLM-4.5", dialog(Message{Role: Role(secret)}), "messages[1].role", "unknown role"},
		{"GLM-4.5", dialog(Message{Role: RoleUser, Content: "a", Parts: []Part{{Type: PartText}}}), "messages[1]", "both"},
		{"GLM-5.3", dialog(Message{Role: RoleTool, Content: "a"}, Message{Role: RoleTool, Content: "a", Parts: []Part{{Type: PartText}}}), "messages[2]", "both"},
		{"GLM-4.5", dialog(Message{Role: RoleUser, ToolCalls: []ToolCall{{Name: "f"}}}), "messages[1].tool_calls", "assistant"},
		{"GLM-5.2", dialog(Message{Role: RoleUser, Parts: []Part{{Type: PartText}, {Type: "image_url"}}}), "messages[1].content[1].type", "image_url"},
		{"GLM-5.2", dialog(Message{Role: RoleUser, Parts: []Part{{Type: "input_audio"}}}), "messages[1].content[0].type", "input_audio"},
		{"GLM-5.2", dialog(Message{Role: RoleSystem, Parts: reference("f")}), "messages[1].content[0].type", "tool_reference"},
		{"GLM-5.2", dialog(Message{Role: RoleAssistant, Parts: []Part{{Type: PartOutput}}}), "messages[1].content[0].type", "output"},
		{"GLM-4.7", dialog(Message{Role: RoleTool, Parts: []Part{{Type: "image"}}}), "messages[1].content[0].type", "image"},
		{"GLM-5.1", dialog(Message{Role: RoleTool, Parts: reference("f")}), "messages[1].content[0].type", "tool_reference"},
		{"GLM-5.2", dialog(Message{Role: RoleTool, Parts: reference("f")}), "messages[1].content[0].name", "no tool"},
		{"GLM-5.3", dialog(Message{Role: RoleTool, Parts: append(reference("f"), Part{Type: PartText})}), "messages[1].content[0].name", "no tool"},
		{"GLM-5.3", dialog(Message{Role: RoleTool, Parts: []Part{{Type: PartOutput, Text: "a", Parts: []Part{{Type: PartText}}}}}), "messages[1].content[0].output", "both"},
		{"GLM-5.3", dialog(Message{Role: RoleTool, Parts: []Part{{Type: PartOutput}, {Type: PartText}}}), "messages[1].content[1].type", "text"},
		{"GLM-5.3", dialog(Message{Role: RoleTool, Parts: []Part{{Type: PartOutput, Parts: []Part{{Type: "image"}}}}}), "messages[1].content[0].output[0].type", "image"},
		{"GLM-4.5", dialog(calling(ToolCall{})), "messages[1].tool_calls[0].function.name", "missing"},
		{"GLM-4.5", dialog(calling(ToolCall{Name: "f", Arguments: json.RawMessage("{")})), "messages[1].tool_calls[0].function.arguments", "JSON"},
		{"GLM-4.5", dialog(calling(ToolCall{Name: "f", Arguments: json.RawMessage(`"{"`)})), "messages[1].tool_calls[0].function.arguments", "JSON"},
		{"GLM-4.5", dialog(calling(ToolCall{Name: "f", Arguments: json.RawMessage("[1]")})), "messages[1].tool_calls[0].function.arguments", "object"},
		{"GLM-5.3", offering(Tool{}), "tools[0].function.name", "missing"},
		{"GLM-5.3", offering(Tool{Name: "f", Parameters: json.RawMessage("{")}), "tools[0].function.parameters", "JSON"},
		{"GLM-5.3", offering(Tool{Name: "f", Parameters: json.RawMessage("true")}), "tools[0].function.parameters", "object"},
	}
	v := byteVocab()
	for _, tt := range tests {
		p, err := renderer(t, tt.template, v).Render(tt.c)
		var re *RequestError
		if p != nil || !errors.Is(err, ErrInvalidRequest) || !errors.As(err, &re) {
			t.Errorf("%s: want a RequestError at %s, have %v", tt.template, tt.field, err)
			continue
		}
		if re.Field != tt.field || !strings.Contains(re.Reason, tt.reason) {
			t.Errorf("want %s: ...%s..., have %s: %s", tt.field, tt.reason, re.Field, re.Reason)
		}
		if !strings.Contains(err.Error(), re.Field) || strings.Contains(err.Error(), secret) {
			t.Errorf("message %q", err)
		}
		if _, err := renderer(t, tt.template, v).template.Text(tt.c); err == nil || err.Error() != re.Error() {
			t.Errorf("Text: want %v, have %v", re, err)
		}
	}
}

// Arguments that clients send for "none" are none.
func TestNoArguments(t *testing.T) {
	for _, raw := range []string{"", "null", `""`, "{}", `"{}"`, `"null"`} {
		tmpl, err := Named("GLM-4.7")
		if err != nil {
			t.Fatal(err)
		}
		text, err := tmpl.Text(dialog(calling(ToolCall{Name: "f", Arguments: json.RawMessage(raw)})))
		if err != nil || !strings.Contains(text, "<tool_call>f</tool_call>") {
			t.Errorf("%q: have %q, %v", raw, text, err)
		}
	}
}

func TestMissingToken(t *testing.T) {
	var added []tokenizer.Added
	for _, a := range tokenizer.GLMAdded(256) {
		if a.Content != "<|observation|>" {
			added = append(added, a)
		}
	}
	v, err := tokenizer.ParseRanks(byteRanks(), added)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := Named("GLM-5")
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(tmpl, v)
	var te *TokenError
	if !errors.Is(err, ErrMissingToken) || !errors.As(err, &te) || te.Token != "<|observation|>" || te.Template != "GLM-5" {
		t.Errorf("want a TokenError for <|observation|> of GLM-5, have %v", err)
	}
}
