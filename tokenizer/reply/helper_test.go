package reply

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
	"github.com/google/go-cmp/cmp"
)

// words are tokens of more than one byte, so that the same text can come in
// different tokens. Some end in the middle of a character.
var words = []string{
	"read", "path", "write", "content", "true", "false", "null", "12", `{"`, `":`, "\n\n", "  ", "arg_", "tool_", "</", "value>", "call>",
	"中", "文", "\xe4\xb8", "\xf0\x9f", "\x98\x80", "the ", "name",
}

// vocabulary is the 256 bytes, the words, and the control tokens of GLM.
var vocabulary = sync.OnceValue(func() *tokenizer.Tokenizer {
	var ranks bytes.Buffer
	add := func(id int, token []byte) {
		fmt.Fprintf(&ranks, "%s %d\n", base64.StdEncoding.EncodeToString(token), id)
	}
	for i := range 256 {
		add(i, []byte{byte(i)})
	}
	for i, w := range words {
		add(256+i, []byte(w))
	}
	t, err := tokenizer.ParseRanks(ranks.Bytes(), tokenizer.GLMAdded(int32(256+len(words))))
	if err != nil {
		panic(err)
	}
	return t
})

// plain is text in which tags are mere text.
type plain string

// ids encodes the parts of a message: strings, in which tags are control tokens,
// and plain ones.
func ids(parts ...any) []int32 {
	var list []int32
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			list = vocabulary().EncodeWithAdded(list, part)
		case plain:
			list = vocabulary().Encode(list, string(part))
		default:
			panic(fmt.Sprintf("part of type %T", part))
		}
	}
	return list
}

// tools compiles tools written as "name schema".
func tools(t testing.TB, list ...string) *Tools {
	t.Helper()
	var decl []Tool
	for _, s := range list {
		name, schema, _ := strings.Cut(s, " ")
		decl = append(decl, Tool{Name: name, Parameters: []byte(schema)})
	}
	compiled, err := NewTools(decl...)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// parse reads a message in one go; in chunks of n ids if n > 0.
func parse(t testing.TB, ts *Tools, prompt, message []int32, n int) []Event {
	t.Helper()
	p, err := New(vocabulary(), ts, prompt)
	if err != nil {
		t.Fatal(err)
	}
	var list []Event
	if n == 0 {
		n = max(1, len(message))
	}
	for len(message) > 0 {
		k := min(n, len(message))
		list = p.Append(list, message[:k]...)
		message = message[k:]
	}
	return merge(p.Finish(list))
}

// merge joins neighbouring deltas.
func merge(list []Event) []Event {
	var out []Event
	for _, e := range list {
		if len(out) > 0 {
			switch last := out[len(out)-1].(type) {
			case ReasoningDelta:
				if e, ok := e.(ReasoningDelta); ok {
					out[len(out)-1] = ReasoningDelta{last.Text + e.Text}
					continue
				}
			case TextDelta:
				if e, ok := e.(TextDelta); ok {
					out[len(out)-1] = TextDelta{last.Text + e.Text}
					continue
				}
			case ToolCallDelta:
				if e, ok := e.(ToolCallDelta); ok && e.Index == last.Index {
					out[len(out)-1] = ToolCallDelta{last.Index, last.Name, last.Arguments + e.Arguments}
					continue
				}
			}
		}
		out = append(out, e)
	}
	return out
}

// show writes events one a line, for comparing and reading: think, text, call
// with its arguments (and what was repaired), bad with the fault. Deltas of calls
// are not shown but checked.
func show(t testing.TB, list []Event) string {
	t.Helper()
	checkDeltas(t, list)
	return lines(list)
}

func lines(list []Event) string {
	var b strings.Builder
	for _, e := range list {
		switch e := e.(type) {
		case ReasoningDelta:
			fmt.Fprintf(&b, "think %q\n", e.Text)
		case TextDelta:
			fmt.Fprintf(&b, "text %q\n", e.Text)
		case ToolCall:
			fmt.Fprintf(&b, "call %s %s", e.Name, e.Arguments)
			if e.Repaired != Sound {
				fmt.Fprintf(&b, " (%v)", e.Repaired)
			}
			b.WriteByte('\n')
		case BadToolCall:
			fmt.Fprintf(&b, "bad %s (%v)\n", e.Name, e.Err.Fault)
		}
	}
	return b.String()
}

// checkDeltas holds the deltas of each call against the call.
func checkDeltas(t testing.TB, list []Event) {
	t.Helper()
	args, names := map[int]string{}, map[int]string{}
	for _, e := range list {
		switch e := e.(type) {
		case ToolCallDelta:
			args[e.Index] += e.Arguments
			names[e.Index] += e.Name
		case ToolCall:
			if args[e.Index] != string(e.Arguments) || names[e.Index] != e.Name {
				t.Errorf("call %d: deltas say %q %q, the call %q %q", e.Index, names[e.Index], args[e.Index], e.Name, e.Arguments)
			}
		}
	}
}

// check parses a message whole and in chunks and compares with lines as show
// writes them.
func check(t *testing.T, ts *Tools, prompt, message []int32, want ...string) []Event {
	t.Helper()
	whole := parse(t, ts, prompt, message, 0)
	wanted := ""
	if len(want) > 0 {
		wanted = strings.Join(want, "\n") + "\n"
	}
	if diff := cmp.Diff(wanted, show(t, whole)); diff != "" {
		t.Errorf("events (-want +have):\n%s", diff)
	}
	for _, n := range []int{1, 2, 3, 7} {
		if diff := cmp.Diff(whole, parse(t, ts, prompt, message, n)); diff != "" {
			t.Errorf("in chunks of %d (-whole +chunks):\n%s", n, diff)
		}
	}
	return whole
}
