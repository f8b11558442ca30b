package reply

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// fuzzTokens are what the bytes below 32 stand for in a fuzzed message; the other
// bytes stand for themselves.
var fuzzTokens = [32]string{
	"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<think>", "</think>",
	"<|observation|>", "<|assistant|>", "\n", "read", "path", "line", "write", "content", "note", "any", "get_current_time",
	"</arg_value></tool_call>", "</arg_value><arg_key>", "</arg_key><arg_value>", "<tool_call>read<arg_key>", "12", "null", "true",
	`{"`, "中", "\xe4\xb8", "\xf0\x9f", "\x98\x80", "  ",
}

const (
	anyTool  = `set {"properties":{"note":{"type":["string","null"]},"any":{},"line":{"anyOf":[{"type":"integer"},{"type":"string"}]},"content":{"type":"array"}}}`
	openTool = `open {"type":"object"}`
)

func fuzzMessage(data []byte) []int32 {
	var list []int32
	for _, b := range data {
		if b < 32 {
			list = vocabulary().EncodeWithAdded(list, fuzzTokens[b])
		} else {
			list = append(list, int32(b))
		}
	}
	return list
}

// FuzzChunks reads made-up messages in many splits and holds the events against
// each other and against the message: the same events however it is cut, nothing
// lost, nothing in a good call that should not be there.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{
		"Hm.\x07Ok.\n\x00read\x02path\x03\x04a.go\x05\x02line\x03\x0412\x05\x01\x00get_current_time\x01\x08",
		"\x06Hm.\x07\x00\x0e\n\x02\x0c\x03\n\x04a\x05\n\x02\x0f\x03\n\x04\x00read\x01\x05 x\x05\n\x01\x08",
		"a\x00read\x02path\x03\x04a\x05\x01b\x05\x01", "\x00read\x03path\x05", "\x00{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\x01",
		"\x00\x00set\x02note\x03\x04nul\x1b\x05\x02any\x03\x04[1]\x05\x0d\x03\x045\x05\x01 \x08", "\x1d\x00\x1e\x1c", "the \x00 tag is",
		"\x00read\x02line\x03\x04\x18\x05\x02path\x03\x04\x18\x05\x01\x00set\x02content\x03\x04\x18\x05\x02line\x03\x04\x18\x05\x01",
		"\x00write\x02content\x03\x04\x02k\x03\x04v\x05\x01\x05\x05\x01 tail\x05", "think \x00read\x02path\x03\x04b\x05\x01\x07\x08",
	} {
		f.Add([]byte(s), uint64(1), true)
		f.Add([]byte(s), uint64(2), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, open bool) {
		if len(data) > 4096 {
			return
		}
		checkSplits(t, fuzzMessage(data), rand.New(rand.NewPCG(seed, 1)), open)
	})
}

var fuzzTools = sync.OnceValue(func() *Tools {
	var decl []Tool
	for _, s := range []string{readTool, writeTool, timeTool, anyTool, openTool} {
		name, schema, _ := strings.Cut(s, " ")
		decl = append(decl, Tool{name, json.RawMessage(schema)})
	}
	ts, err := NewTools(decl...)
	if err != nil {
		panic(err)
	}
	return ts
})

// checkSplits reads a message whole, id by id, in random chunks, and in other
// tokens that spell the same text.
func checkSplits(t *testing.T, message []int32, cut *rand.Rand, open bool) {
	t.Helper()
	ts := fuzzTools()
	var prompt []int32
	if open {
		prompt = thinking
	}
	whole := parse(t, ts, prompt, message, 0)
	same(t, "one by one", whole, parse(t, ts, prompt, message, 1))
	p, err := New(vocabulary(), ts, prompt)
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for rest := message; len(rest) > 0; {
		n := 1 + cut.IntN(min(len(rest), 9))
		events = p.Append(events, rest[:n]...)
		rest = rest[n:]
	}
	same(t, "in random chunks", whole, merge(p.Finish(events)))
	// Places in errors are as precise as the tokens are.
	same(t, "in tokens of a byte", withoutOffsets(whole), withoutOffsets(parse(t, ts, prompt, inBytes(message), 1)))
	checkDeltas(t, whole)
	checkEvents(t, whole, untilStop(message))
}

func same(t *testing.T, how string, want, have []Event) {
	t.Helper()
	if !reflect.DeepEqual(want, have) {
		t.Fatalf("%s (-whole +%s):\n%s", how, how, cmp.Diff(want, have))
	}
}

// TestSplits does what FuzzChunks does to messages that are well formed but for a
// few tokens that are left out, doubled, swapped or put in.
func TestSplits(t *testing.T) {
	const well = "Hm. \x07 Ok.\n\x00read\x02path\x03\x04a.go\x05\x02line\x03\x0412\x05\x01\x00get_current_time\x01\n" +
		"\x00set\x02note\x03\x04nul\x1b\x05\x02any\x03\x04[1]\x05\x02line\x03\x045\x05\x02content\x03\x04[\"\x1b\"]\x05\x01" +
		"\x00write\x02path\x03\x04\x1d\x1e\x05\x02content\x03\x04x\x05 y \x00read\x02path\x03\x04b\x05\x01z\x05\x01\x08"
	g := rand.New(rand.NewPCG(3, 28))
	n := 20000
	if testing.Short() {
		n = 2000
	}
	var data []byte
	defer func() {
		if t.Failed() {
			t.Logf("message %q", data)
		}
	}()
	for range n {
		data = []byte(well)
		from := g.IntN(len(data))
		data = data[from : from+g.IntN(len(data)-from)+1]
		if g.IntN(2) == 0 {
			data = append(data, 8)
		}
		for range g.IntN(5) {
			i, j := g.IntN(len(data)), g.IntN(len(data))
			switch g.IntN(5) {
			case 0:
				if len(data) > 1 {
					data = slices.Delete(data, i, i+1)
				}
			case 1:
				data = slices.Insert(data, i, data[i])
			case 2:
				data[i], data[j] = data[j], data[i]
			case 3: // another value: numbers, null, an object, half a character
				if v := bytes.IndexByte(data[i:], 4); v >= 0 && i+v+1 < len(data) {
					data[i+v+1] = byte(23 + g.IntN(9))
				}
			default:
				data = slices.Insert(data, i, byte(g.IntN(len(fuzzTokens))))
			}
		}
		checkSplits(t, fuzzMessage(data), g, g.IntN(2) == 0)
	}
}

// inBytes writes the text tokens of a message as tokens of one byte.
func inBytes(message []int32) []int32 {
	var list []int32
	for _, id := range message {
		if int(id) >= 256+len(words) {
			list = append(list, id)
			continue
		}
		for _, b := range vocabulary().Bytes(id) {
			list = append(list, int32(b))
		}
	}
	return list
}

func withoutOffsets(list []Event) []Event {
	var out []Event
	for _, e := range list {
		if bad, ok := e.(BadToolCall); ok {
			err := *bad.Err
			err.Offset = 0
			bad.Err = &err
			e = bad
		}
		out = append(out, e)
	}
	return out
}

func untilStop(message []int32) []int32 {
	for i, id := range message {
		for _, s := range stopSpelling {
			if stop, _ := vocabulary().ID(s); id == stop {
				return message[:i]
			}
		}
	}
	return message
}

// checkEvents holds events against the message they came from.
func checkEvents(t *testing.T, list []Event, message []int32) {
	t.Helper()
	raw := string(vocabulary().Raw(nil, message...))
	ended := map[int]bool{}
	var out strings.Builder
	for _, e := range list {
		switch e := e.(type) {
		case ReasoningDelta:
			out.WriteString(e.Text)
		case TextDelta:
			out.WriteString(e.Text)
		case ToolCall:
			if ended[e.Index] || !strings.Contains(raw, e.Raw) || !strings.HasPrefix(e.Raw, "<tool_call>") {
				t.Fatalf("call %d: ended before %v, raw text %q", e.Index, ended[e.Index], e.Raw)
			}
			ended[e.Index] = true
			out.WriteString(e.Raw)
			checkArguments(t, e)
		case BadToolCall:
			if ended[e.Index] || !strings.Contains(raw, e.Raw) || !strings.HasPrefix(e.Raw, "<tool_call>") {
				t.Fatalf("bad call %d: ended before %v, raw text %q", e.Index, ended[e.Index], e.Raw)
			}
			if e.Err.Offset > len(e.Raw) {
				t.Fatalf("bad call %d: offset %d of %d bytes", e.Index, e.Err.Offset, len(e.Raw))
			}
			ended[e.Index] = true
			out.WriteString(e.Raw)
		}
	}
	for i := range len(ended) {
		if !ended[i] {
			t.Fatalf("%d calls ended, and number %d did not", len(ended), i)
		}
	}
	for _, e := range list {
		if d, ok := e.(ToolCallDelta); ok && !ended[d.Index] {
			t.Fatalf("call %d has deltas and no end", d.Index)
		}
	}
	if !utf8.ValidString(raw) {
		return
	}
	// Nothing is lost but blanks and tags of the reasoning.
	lost := solid(raw) - solid(out.String())
	opens, closes := strings.Count(raw, "<think>"), strings.Count(raw, "</think>")
	for range opens + 1 {
		for n := range closes + 1 {
			if lost == 8*n {
				return
			}
		}
		lost -= 7
	}
	t.Fatalf("of %q there came out %q", raw, out.String())
}

func solid(s string) int {
	n := 0
	for _, b := range []byte(s) {
		if !strings.ContainsRune(blanks, rune(b)) {
			n++
		}
	}
	return n
}

// checkArguments holds the arguments of a good call against the schemas above,
// without the code under test.
func checkArguments(t *testing.T, c ToolCall) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(c.Arguments))
	d.UseNumber()
	var args map[string]any
	if err := d.Decode(&args); err != nil || !utf8.Valid(c.Arguments) {
		t.Fatalf("arguments %q: %v", c.Arguments, err)
	}
	isInteger := func(v any) bool {
		n, ok := v.(json.Number)
		if !ok {
			return false
		}
		// Without an exponent that is easy to say.
		whole, digits, _ := strings.Cut(n.String(), ".")
		return strings.ContainsAny(n.String(), "eE") || whole != "" && strings.Trim(digits, "0") == ""
	}
	isString := func(v any) bool { _, ok := v.(string); return ok }
	for k, v := range args {
		ok := false
		switch c.Name + "." + k {
		case "read.path", "write.path", "write.content":
			ok = isString(v)
		case "read.line":
			ok = isInteger(v) || v == nil // not required and no string: null is for what is left out
		case "set.note":
			ok = isString(v) || v == nil
		case "set.line":
			ok = isString(v) || isInteger(v)
		case "set.content":
			_, ok = v.([]any)
			ok = ok || v == nil
		default:
			ok = !strings.ContainsAny(k, blanks+`<>"{}`) // not listed: a name
		}
		if !ok {
			t.Fatalf("%s takes no %q = %v", c.Name, k, v)
		}
	}
}
