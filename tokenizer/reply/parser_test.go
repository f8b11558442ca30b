package reply

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	readTool  = `read {"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"}},"required":["path"]}`
	writeTool = `write {"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`
	timeTool  = `get_current_time {"type":"object","properties":{}}`
)

// TestGenerations reads one message as each generation writes it.
func TestGenerations(t *testing.T) {
	ts := tools(t, readTool, timeTool)
	want := []string{`think "Hm."`, `text "I'll look."`, `call read {"path":"a.go","line":12}`, `call get_current_time {}`}
	for _, g := range []struct{ name, prompt, message string }{
		{"GLM-4.5, 4.6", "<|user|>\nhi<|assistant|>",
			"\n<think>Hm.</think>\nI'll look.\n<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.go</arg_value>\n<arg_key>line</arg_key>\n<arg_value>12</arg_value>\n</tool_call>\n<tool_call>get_current_time\n</tool_call>"},
		{"GLM-4.7 on", "<|user|>hi<|assistant|><think>",
			"Hm.</think>I'll look.<tool_call>read<arg_key>path</arg_key><arg_value>a.go</arg_value><arg_key>line</arg_key><arg_value>12</arg_value></tool_call><tool_call>get_current_time</tool_call>"},
		{"a mixture", "<|user|>hi<|assistant|><think>",
			"<think>Hm.</think>\n\nI'll look.\n\n<tool_call>read\n<arg_key>path</arg_key><arg_value>a.go</arg_value> \t<arg_key> line </arg_key>\r\n<arg_value>\n12\n</arg_value></tool_call>\n\n\n<tool_call>\nget_current_time</tool_call>\n"},
	} {
		t.Run(g.name, func(t *testing.T) {
			check(t, ts, ids(g.prompt), ids(g.message, "<|observation|>"), want...)
		})
	}
}

// TestText: what becomes of blanks, of characters in pieces, and of ids that are
// no tokens.
func TestText(t *testing.T) {
	for message, want := range map[string]string{
		" \r\n\t a\n\n b \n":          `text "a\n\n b"`,
		"\n \n":                       ``,
		"\u00a0a\u3000":               `text "\u00a0a\u3000"`,
		"a\xe4\xb8\xadb":              `text "a中b"`,
		"a\xe4\xb8":                   `text "a` + "\uFFFD" + `"`,
		"a\xe4\xb8<think>":            `text "a` + "\uFFFD" + `<think>"`,
		"<think>\xe4\xb8</think>\xad": "think \"\uFFFD\"\ntext \"\uFFFD\"",
		"<think> a \n</think>b":       "think \" a \\n\"\ntext \"b\"",
		"a<|system|>b":                `text "a<|system|>b"`,
	} {
		var lines []string
		if want != "" {
			lines = strings.Split(want, "\n")
		}
		check(t, nil, nil, ids(message), lines...)
	}
	now := "<tool_call>get_current_time</tool_call>"
	ts := tools(t, timeTool, readTool)
	check(t, ts, nil, ids("a\xe4\xb8", now, "\xad"), "text \"a\uFFFD\"", `call get_current_time {}`, "text \"\uFFFD\"")
	check(t, ts, nil, ids(now, "<think>a</think>"), `call get_current_time {}`, `text "<think>a</think>"`)
	check(t, ts, nil, ids("a \n", now, "\n b"), `text "a"`, `call get_current_time {}`, `text " \n\n b"`)
	check(t, ts, thinking, ids(now, "<think>a</think>b"), fmt.Sprintf("think %q", now+"<think>a"), `text "b"`)
	p, err := New(vocabulary(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	events := p.Append(nil, -1, 1<<30, int32('a'), int32(vocabulary().Size()))
	if have := show(t, p.Finish(events)); have != "text \"a\"\n" {
		t.Errorf("have %s", have)
	}
	if again := p.Append(p.Finish(nil), ids("more<tool_call>")...); len(again) > 0 {
		t.Errorf("after the end there came %s", show(t, again))
	}
}

// TestCutOff ends a message after every one of its tokens. Until the call is
// whole it is bad, with all of its text.
func TestCutOff(t *testing.T) {
	ts := tools(t, readTool)
	for _, layout := range []string{"", "\n"} {
		body := ids("<tool_call>read", layout, "<arg_key>path</arg_key>", layout, "<arg_value>中</arg_value>", layout,
			"<arg_key>line</arg_key>", layout, "<arg_value>12</arg_value>", layout, "</tool_call>")
		for n := 1; n < len(body); n++ {
			events := check(t, ts, nil, body[:n], cutOff(body[:n]))
			bad := events[len(events)-1].(BadToolCall)
			if raw := string(vocabulary().Raw(nil, body[:n]...)); bad.Raw != raw {
				t.Errorf("raw text is %q, want %q", bad.Raw, raw)
			}
			if bad.Err.Want != "" || bad.Err.Arg > 2 {
				t.Errorf("error %v", bad.Err)
			}
		}
		check(t, ts, nil, body, `call read {"path":"中","line":12}`)
	}
	// Before any call there is nothing to be bad.
	check(t, ts, thinking, ids("Hm."), `think "Hm."`)
	check(t, ts, nil, ids("Hm."), `text "Hm."`)
	check(t, ts, nil, nil)
}

// cutOff is the line for a call of read that was cut off.
func cutOff(body []int32) string {
	name := ""
	if key, _ := vocabulary().ID("<arg_key>"); slices.Contains(body, key) {
		name = "read"
	}
	return fmt.Sprintf("bad %s (the message ended inside the call)", name)
}

// TestBadTags: a tag in each place where it has no business, and a good call
// behind.
func TestBadTags(t *testing.T) {
	ts := tools(t, readTool)
	good := wire("read", "path", "b")
	for _, body := range []string{
		"read<arg_value>a</arg_value></tool_call>",
		"read<arg_key></tool_call>",
		"read<arg_key>path</tool_call>",
		"read<arg_key>path</arg_value></tool_call>",
		"read<arg_key>path<arg_key>line</arg_key><arg_value>1</arg_value></tool_call>",
		"read<arg_key>path</arg_key></tool_call>",
		"read<arg_key>path</arg_key></arg_value></tool_call>",
		"read<arg_key>path</arg_key><arg_key>line</arg_key><arg_value>1</arg_value></tool_call>",
		"read</arg_value>x<arg_key>path</arg_key><arg_value>1</arg_value></tool_call>",
		"read</arg_value></arg_key><arg_value>1</arg_value></tool_call>",
		"read</arg_value><arg_value>1</arg_value></tool_call>",
		"read<arg_key>path",           // and <tool_call>
		"read<arg_key>path</arg_key>", // and <tool_call>
		"read</arg_value>",            // and <tool_call>
		"read</arg_key><arg_value>1</arg_value></tool_call>",
	} {
		events := check(t, ts, nil, ids("<tool_call>", body, good, "<|observation|>"),
			`bad read (a tag in the wrong place)`, `call read {"path":"b"}`)
		for _, e := range events {
			if bad, ok := e.(BadToolCall); ok {
				if bad.Raw != "<tool_call>"+body || bad.Err.Offset >= len(bad.Raw) && bad.Err.Have != "<tool_call>" || bad.Err.Want == "" {
					t.Errorf("%s: raw text %q, error %v", body, bad.Raw, bad.Err)
				}
			}
		}
	}
	// With no tool declared every call is bad, and still a call.
	check(t, nil, nil, ids(good, "<|observation|>"), `bad read (no such tool)`)
	check(t, nil, nil, ids("<tool_call>readpath</arg_key><arg_value>b</arg_value></tool_call><|observation|>"), `bad readpath (no such tool)`)
	// A bad call is followed to its end, quoted calls and all.
	check(t, ts, nil, ids(wire("wrong", "path", "x "+good+" y"), "<|observation|>"), `bad wrong (no such tool)`)
	// A value of another kind than text is read where its opening tag is missing.
	check(t, ts, nil, ids("<tool_call>read<arg_key>path</arg_key><think>a</arg_value></tool_call><|observation|>"),
		`call read {"path":"<think>a"} (<arg_value> is missing)`)
}

// TestNotACall: talk about the tag is talk.
func TestNotACall(t *testing.T) {
	ts := tools(t, readTool, "a")
	for _, s := range []string{
		"Use <tool_call> to open a call and </tool_call> to end it.",
		"<tool_call><tool_call> doubled tags",
		"a <tool_call>" + strings.Repeat("x", 300),
		"a <tool_call>" + strings.Repeat(" ", 300) + "read.",
	} {
		check(t, ts, nil, ids(s, "<|user|>"), fmt.Sprintf("text %q", s))
		check(t, ts, thinking, ids(s, "</think>Ok.<|user|>"), fmt.Sprintf("think %q", s), `text "Ok."`)
	}
	check(t, ts, thinking, ids("It is <tool_call>read</think>Ok.<|user|>"), `think "It is <tool_call>read"`, `text "Ok."`)
}

// TestBadUTF8: JSON can't hold bytes that are not UTF-8, so a call can't either.
func TestBadUTF8(t *testing.T) {
	ts := tools(t, readTool, anyTool)
	for _, body := range []string{
		wire("read", "path", "a\xffb"), wire("read", "path", "a\xe4\xb8"), wire("read", "path", "\xe4\xb8<tool_call>\xad"),
		wire("set", "note", "n\xff"), wire("set", "note", "nul\xe4"), wire("set", "content", "[\"\xff\"]"), wire("set", "any", "{\"\xff\":1}"),
	} {
		name, _, _ := strings.Cut(strings.TrimPrefix(body, "<tool_call>"), "<arg_key>")
		events := check(t, ts, nil, ids(body, "<|observation|>"), "bad "+name+" (not UTF-8)")
		if bad := events[len(events)-1].(BadToolCall); bad.Raw != body {
			t.Errorf("raw text is %q", bad.Raw)
		}
	}
}

// TestSoon: nothing is held back longer than it takes to be certain.
func TestSoon(t *testing.T) {
	ts := tools(t, readTool, writeTool, timeTool)
	open := wire("write", "path", "a", "content", "x")
	open = strings.TrimSuffix(open, "</arg_value></tool_call>")
	for _, c := range []struct{ before, token, want string }{
		{"", "Hm", `text "Hm"`},
		{"<think>", "Hm", `think "Hm"`},
		{"<tool_call>get_current_time</tool_call>", "A", "call get_current_time {}\ntext \"A\""},
		{"<tool_call>get_current_time</tool_call>", "<tool_call>", "call get_current_time {}"},
		{wire("read", "path", "a"), "<tool_call>", `call read {"path":"a"}`},
		{wire("read", "path", "a"), "<|observation|>", `call read {"path":"a"}`},
		{"<think>" + wire("read", "path", "a"), "b", fmt.Sprintf("think %q", wire("read", "path", "a")+"b")},
		{"<tool_call>wrong</tool_call>", "\n<tool_call>", `bad wrong (no such tool)`},
		{open, "y", `delta y`},
		{open + "</arg_value>", "y", `delta </arg_value>y`},
		{open + "</arg_value> \n", "<think>", `delta </arg_value> \n<think>`},
		{open + "</arg_value></tool_call>", "</arg_value>", `delta </arg_value></tool_call>`},
		{open + "</arg_value>path" + strings.Repeat(" ", 1000), "y", `delta y`},
		{open + "</arg_value><arg_key>" + strings.Repeat("k", 1000), "y", `delta y`},
	} {
		p, err := New(vocabulary(), ts, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Append(nil, ids(c.before)...)
		events := merge(p.Append(nil, ids(c.token)...))
		have := strings.TrimSuffix(lines(events), "\n")
		if len(events) > 0 {
			if d, ok := events[0].(ToolCallDelta); ok && d.Name == "" && have == "" {
				have = "delta " + d.Arguments
			}
		}
		if have != c.want {
			t.Errorf("%q and then %q: want %q, have %q", c.before, c.token, c.want, have)
		}
	}
}

// TestPlaceOfValue: an error about a value points to where its text starts.
func TestPlaceOfValue(t *testing.T) {
	ts := tools(t, readTool)
	for _, body := range []string{
		"<tool_call>read<arg_key>path</arg_key><arg_value>p</arg_value><arg_key>line</arg_key><arg_value>^</arg_value></tool_call>",
		"<tool_call>read<arg_key>line</arg_key>^</arg_value></tool_call>",
		"<tool_call>read<arg_key>line</arg_key>\n^</arg_value></tool_call>",
		"<tool_call>read<arg_key>line<arg_value>^</arg_value></tool_call>",
		"<tool_call>readline</arg_key><arg_value>^</arg_value></tool_call>",
	} {
		for _, text := range []string{"five", "  five"} {
			events := parse(t, ts, nil, ids(strings.Replace(body, "^", text, 1), "<|observation|>"), 1)
			bad, ok := events[len(events)-1].(BadToolCall)
			if !ok || bad.Err.Offset != strings.Index(body, "^") {
				t.Errorf("%s: have %v", body, bad.Err)
			}
		}
	}
}

// TestLinear reads messages of n and 32n pieces. If the time were quadratic it
// would grow a thousandfold; other load on the machine does not do that.
func TestLinear(t *testing.T) {
	ts := tools(t, readTool, writeTool, `set {"properties":{"list":{"type":"array"},"any":{}}}`)
	call := wire("read", "path", "a")
	for name, m := range map[string]struct{ head, piece, tail string }{
		"text and calls":      {"", call + " and ", "<|user|>"},
		"calls":               {"", call, "<|user|>"},
		"calls in reasoning":  {"<think>", call, "<|user|>"},
		"long string":         {"<tool_call>write<arg_key>content</arg_key><arg_value>", "text \n\"", "</arg_value></tool_call><|user|>"},
		"long array":          {"<tool_call>set<arg_key>list</arg_key><arg_value>[0", ", 12", "]</arg_value></tool_call><|user|>"},
		"long number":         {"<tool_call>set<arg_key>any</arg_key><arg_value>1", "12", "</arg_value></tool_call><|user|>"},
		"ends in a string":    {"<tool_call>write<arg_key>content</arg_key><arg_value>", "</arg_value></tool_call> x", "</arg_value></tool_call><|user|>"},
		"ends in an array":    {"<tool_call>set<arg_key>list</arg_key><arg_value>[0", ", \"</arg_value></tool_call> x\"", "]</arg_value></tool_call><|user|>"},
		"ends without an end": {"<tool_call>set<arg_key>list</arg_key><arg_value>[0", "</arg_value></tool_call> x", "<|user|>"},
		"keys in a string":    {"<tool_call>write<arg_key>content</arg_key><arg_value>", "</arg_value><arg_key>no key", "</arg_value></tool_call><|user|>"},
		"blanks":              {"", "  ", "x<|user|>"},
		"blanks after a call": {call, "  ", "x<|user|>"},
		"a name":              {"<tool_call>read", " ", "</tool_call><|user|>"},
		"JSON for a name":     {`<tool_call>{"name":"`, "read", `"}</tool_call><|user|>`},
		"arguments":           {"<tool_call>set", "<arg_key>any</arg_key><arg_value>12</arg_value>", "</tool_call><|user|>"},
		"quoted calls":        {"<tool_call>write<arg_key>content</arg_key><arg_value>", call, "</arg_value></tool_call><|user|>"},
	} {
		run := func(n int) time.Duration {
			message := ids(m.head, strings.Repeat(m.piece, n), m.tail)
			best := time.Duration(math.MaxInt64)
			for range 3 {
				p, err := New(vocabulary(), ts, nil)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				var events []Event
				for _, id := range message {
					events = p.Append(events[:0], id)
				}
				p.Finish(events[:0])
				best = min(best, time.Since(start))
			}
			return best
		}
		const n = 500
		if short, long := run(n), run(32*n); long > 320*short {
			t.Errorf("%s: %v for %d pieces, %v for %d", name, short, n, long, 32*n)
		}
	}
}
