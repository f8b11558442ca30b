package reply

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// A report is one bug that users of other programs reported. REPORTS.md has a
// line for each: what is asserted here, or why it cannot arise.
type report struct {
	number int
	link   string
	test   func(t *testing.T) // nil: cannot arise here, for the reason in REPORTS.md
}

var reports = []report{
	{1, "vllm-project/vllm/issues/46040", func(t *testing.T) {
		ts := tools(t, readTool)
		// The message ends with the call: it was meant.
		check(t, ts, thinking, ids("Let me look.", wire("read", "path", "a.go"), "<|observation|>"),
			`think "Let me look."`, `call read {"path":"a.go"}`)
		check(t, ts, thinking, ids("Hm.", wire("read", "path", "a"), "\n", wire("read", "path", "b"), "</think>\n<|observation|>"),
			`think "Hm."`, `call read {"path":"a"}`, `call read {"path":"b"}`)
		// The message goes on: it was a thought.
		dream := wire("read", "path", "a.go")
		check(t, ts, thinking, ids("I could ", dream, " but no.</think>Done.<|user|>"),
			fmt.Sprintf("think %q", "I could "+dream+" but no."), `text "Done."`)
		check(t, ts, thinking, ids("I will ", dream, "</think>", dream, "<|observation|>"),
			fmt.Sprintf("think %q", "I will "+dream), `call read {"path":"a.go"}`)
		check(t, ts, thinking, ids("I could ", dream), fmt.Sprintf("think %q", "I could "+dream))
		check(t, ts, thinking, ids("I could ", dream, "</think>\n"), fmt.Sprintf("think %q", "I could "+dream))
		check(t, ts, thinking, ids("I could <tool_call>read<arg_key>pa"), `think "I could <tool_call>read<arg_key>pa"`)
		// Mentioning the tag is no call either.
		check(t, ts, thinking, ids("The <tool_call> tag opens a call.</think>Yes.<|user|>"),
			`think "The <tool_call> tag opens a call."`, `text "Yes."`)
	}},
	{2, "vllm-project/vllm/issues/42400", func(t *testing.T) {
		ts := tools(t, writeTool)
		events := check(t, ts, nil, ids("<tool_call>write<arg_key>path</arg_key><arg_value>plan.md</arg_value><arg_key>content</arg_key><arg_value># Plan"),
			`bad write (the message ended inside the call)`)
		if bad := events[len(events)-1].(BadToolCall); !strings.HasSuffix(bad.Raw, "<arg_value># Plan") {
			t.Errorf("raw text is %q", bad.Raw)
		}
	}},
	{3, "vllm-project/vllm/pull/40782", func(t *testing.T) {
		ts := tools(t, readTool)
		check(t, ts, nil, ids(wire("read", "path", "a"), "<|observation|>"), `call read {"path":"a"}`)
		// A body without its opening tag stays visible and is never run.
		check(t, ts, nil, ids("read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call><|observation|>"),
			`text "read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>"`)
	}},
	{4, "anomalyco/opencode/pull/6883", func(t *testing.T) {
		ts := tools(t, readTool)
		check(t, ts, thinking, ids("Run it.", wire("read", "path", "a"), "</think><|observation|>"),
			`think "Run it."`, `call read {"path":"a"}`)
		check(t, ts, thinking, ids(plain(`<invoke name="bash"><command>ls</command></invoke>`), "</think>Ok.<|user|>"),
			`think "<invoke name=\"bash\"><command>ls</command></invoke>"`, `text "Ok."`)
	}},
	{5, "vllm-project/vllm/issues/27703", func(t *testing.T) {
		prompt := ids("<|user|>\n2+2?<|assistant|>\n<think></think>\n<tool_call>calc\n</tool_call><|observation|>\n<tool_response>\n4\n</tool_response><|assistant|>")
		check(t, nil, prompt, ids("\n<think>It is 4.</think>\nFour.<|user|>"), `think "It is 4."`, `text "Four."`)
	}},
	{6, "sgl-project/sglang/issues/37645", func(t *testing.T) {
		p, err := New(vocabulary(), nil, thinking)
		if err != nil {
			t.Fatal(err)
		}
		have := show(t, merge(p.Finish(p.Append(nil, ids("The answer is 4.<|user|>")...))))
		if want := "think \"The answer is 4.\"\n"; have != want {
			t.Errorf("want %s, have %s", want, have)
		}
		if !p.InReasoning() {
			t.Error("nothing says that the message ended inside the reasoning")
		}
	}},
	{7, "vllm-project/vllm/issues/31319", func(t *testing.T) {
		check(t, nil, thinking, ids("Hm.</think>Four.<|user|>"), `think "Hm."`, `text "Four."`)
		for _, off := range []string{"<|assistant|></think>", "<|assistant|><think></think>", "<|assistant|>\n<think></think>"} {
			check(t, nil, ids("<|user|>2+2?", off), ids("Four.<|user|>"), `text "Four."`)
			check(t, nil, ids("<|user|>2+2?", off), ids("</think>Four.<|user|>"), `text "Four."`)
		}
	}},
	{8, "vllm-project/vllm/issues/54744", func(t *testing.T) {
		// The client asked for no thinking; the template opened it all the same,
		// and the prompt is what counts.
		check(t, nil, ids("[gMASK]<sop><|system|>Reasoning Effort: Low<|user|>hi<|assistant|><think>"),
			ids("scratch</think>Hello.<|user|>"), `think "scratch"`, `text "Hello."`)
	}},
	{9, "vllm-project/vllm/pull/56635", func(t *testing.T) {
		ts := tools(t, readTool)
		history := "<|user|>hi<|assistant|><think>a</think>" + wire("read", "path", "a") + "<|observation|><tool_response>x</tool_response>"
		check(t, ts, ids(history, "<|assistant|><think>"), ids("b</think>c<|user|>"), `think "b"`, `text "c"`)
		check(t, ts, ids(history, "<|assistant|></think>"), ids("c<|user|>"), `text "c"`)
		check(t, ts, ids("<|assistant|><think>unclosed<|user|>hi<|assistant|>"), ids("c<|user|>"), `text "c"`)
	}},
	{10, "anomalyco/opencode/issues/6486", func(t *testing.T) {
		check(t, nil, ids("<|user|>hi<|assistant|>"), ids("\n<think></think>\nHello.<|user|>"), `text "Hello."`)
		check(t, nil, thinking, ids("</think>Hello.<|user|>"), `text "Hello."`)
		check(t, nil, thinking, ids("</think><|user|>"))
	}},
	{11, "JustVugg/colibri/issues/1278", func(t *testing.T) {
		check(t, nil, thinking, ids("They ask about <think>.</think>A block opens with <think> and ends with </think>. That is all.<|user|>"),
			`think "They ask about <think>."`, `text "A block opens with <think> and ends with </think>. That is all."`)
	}},
	{12, "vllm-project/vllm/issues/32436", zeroArguments},
	{13, "vllm-project/vllm/issues/44326", zeroArguments},
	{14, "sgl-project/sglang/pull/15405", func(t *testing.T) {
		events := parse(t, tools(t, timeTool), nil, ids("<tool_call>get_current_time</tool_call><|observation|>"), 1)
		var args strings.Builder
		for _, e := range events {
			if d, ok := e.(ToolCallDelta); ok {
				args.WriteString(d.Arguments)
			}
		}
		if args.String() != "{}" {
			t.Errorf("deltas add up to %q", args.String())
		}
	}},
	{15, "alibaba/rtp-llm/pull/525", zeroArguments},
	{16, "vllm-project/vllm/issues/39757", func(t *testing.T) {
		ts := tools(t, "run_in", "run_in_terminal")
		message := ids("<tool_call>run_in_terminal<arg_key>cmd</arg_key><arg_value>ls</arg_value></tool_call><|observation|>")
		check(t, ts, nil, message, `call run_in_terminal {"cmd":"ls"}`)
		for n := 1; n <= len(message); n++ {
			for _, e := range parse(t, ts, nil, message, n) {
				if d, ok := e.(ToolCallDelta); ok && d.Name != "" && d.Name != "run_in_terminal" {
					t.Fatalf("in chunks of %d a delta names %q", n, d.Name)
				}
			}
		}
	}},
	{17, "fw-ai-external/python-sdk/issues/119", func(t *testing.T) {
		check(t, tools(t, "tool_12"), nil, ids("<tool_call>tool_12</arg_value></tool_call><|observation|>"),
			`bad tool_12 (a tag in the wrong place)`)
	}},
	{18, "zai-org/GLM-5/issues/84", func(t *testing.T) {
		ts := tools(t, `read {"properties":{"filePath":{"type":"string"}}}`)
		body := "read<arg_key>filePath</arg_key><arg_value>/home/x</arg_value>"
		check(t, ts, nil, ids("<tool_call>", body, "</tool_call><|observation|>"), `call read {"filePath":"/home/x"}`)
		// Tags spelled by text tokens are no structure, so this names no tool.
		events := check(t, ts, nil, ids("<tool_call>", plain(body), "</tool_call><|observation|>"),
			`bad `+body+` (no such tool)`)
		if raw := events[0].(BadToolCall).Raw; raw != "<tool_call>"+body+"</tool_call>" {
			t.Errorf("raw text is %q", raw)
		}
	}},
	{19, "vllm-project/vllm/issues/49248", func(t *testing.T) {
		ts := tools(t, `search {"properties":{"query":{"type":"string"},"n":{"type":"integer"}}}`)
		check(t, ts, nil, ids("<tool_call>search<arg_key>query</arg_key>how many vacation days left</arg_value></tool_call><|observation|>"),
			`call search {"query":"how many vacation days left"} (<arg_value> is missing)`)
		check(t, ts, nil, ids("<tool_call>search\n<arg_key>query</arg_key>\nhow many</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call><|observation|>"),
			`call search {"query":"how many","n":3} (<arg_value> is missing)`)
		// With tags in such a value more is missing, and it may hold another
		// argument or another call.
		for _, value := range []string{
			"many<arg_key>n</arg_key>3", "many</arg_key><arg_value>3", "many</arg_value> and <think>", "many<tool_call>",
			"many</tool_call>" + "<tool_call>search<arg_key>query</arg_key>few", "many<arg_key>n<arg_value>3",
		} {
			for _, tag := range []string{"</arg_key>", "<arg_value>"} { // the other one is missing
				body := "<tool_call>search<arg_key>query" + tag + value + "</arg_value></tool_call>"
				events := check(t, ts, nil, ids(body, "<|observation|>"), `bad search (a tag in the wrong place)`)
				if bad := events[len(events)-1].(BadToolCall); bad.Raw != body {
					t.Errorf("raw text is %q", bad.Raw)
				}
			}
		}
		check(t, ts, nil, ids("<tool_call>search<arg_key>query</arg_key>many</arg_value></tool_call> So.<|user|>"),
			`call search {"query":"many"} (<arg_value> is missing)`, `text "So."`)
		// A value that has its own tag may hold others as ever.
		check(t, tools(t, writeTool), nil, ids("<tool_call>write<arg_key>path</arg_key>a</arg_value><arg_key>content</arg_key><arg_value>the <tool_call> tag</arg_value></tool_call><|observation|>"),
			`call write {"path":"a","content":"the <tool_call> tag"} (<arg_value> is missing)`)
	}},
	{20, "vllm-project/vllm/pull/47190", func(t *testing.T) {
		ts := tools(t, `send_command_to_shell {"properties":{"command":{},"wait":{"type":"boolean"}}}`, `browser_action {"properties":{"task":{}}}`)
		check(t, ts, nil, ids("<tool_call>send_command_to_shellcommand</arg_key><arg_value>echo test</arg_value></tool_call><|observation|>"),
			`call send_command_to_shell {"command":"echo test"} (<arg_key> is missing)`)
		check(t, ts, nil, ids("<tool_call>browser_action task</arg_key><arg_value>go</arg_value></tool_call><|observation|>"),
			`call browser_action {"task":"go"} (<arg_key> is missing)`)
		check(t, ts, nil, ids("<tool_call>send_command_to_shell<arg_key>command</arg_key><arg_value>ls</arg_value>wait</arg_key><arg_value>true</arg_value></tool_call><|observation|>"),
			`call send_command_to_shell {"command":"ls","wait":true} (<arg_key> is missing)`)
		// Two ways to cut: no guess.
		two := tools(t, `run {"properties":{"_in_x":{}}}`, `run_in {"properties":{"_x":{}}}`)
		check(t, two, nil, ids("<tool_call>run_in_x</arg_key><arg_value>1</arg_value></tool_call><|observation|>"),
			`bad run_in_x (no such tool)`)
	}},
	{21, "vllm-project/vllm/pull/54971", func(t *testing.T) {
		ts := tools(t, `list_dir {"properties":{"path":{},"deep":{}}}`)
		check(t, ts, nil, ids("<tool_call>list_dir<arg_key>path</arg_key></arg_key><arg_value>/tmp/x</arg_value></tool_call><|observation|>"),
			`call list_dir {"path":"/tmp/x"} (a tag stands twice)`)
		check(t, ts, nil, ids("<tool_call>list_dir<arg_key><arg_key>path</arg_key><arg_value>/tmp/x</arg_value><arg_key><arg_key>deep</arg_key><arg_value>1</arg_value></tool_call><|observation|>"),
			`call list_dir {"path":"/tmp/x","deep":1} (a tag stands twice)`)
	}},
	{22, "exo-explore/exo/pull/2187", func(t *testing.T) {
		ts := tools(t, `open {"properties":{"file":{},"page":{"type":"integer"}}}`)
		check(t, ts, nil, ids("<tool_call>open<arg_key>file", plain("<arg_key"), "</arg_key><arg_value>page", plain("</arg_key><arg_value>"), "5</arg_value></tool_call><|observation|>"),
			`bad open (not the name of a parameter)`)
	}},
	{23, "ollama/ollama/issues/13820", func(t *testing.T) {
		ts := tools(t, readTool)
		check(t, ts, nil, ids("Look. <tool_call>read</arg_key></tool_call>", wire("read", "path", "b"), "<|observation|>"),
			`text "Look."`, `bad read (a tag in the wrong place)`, `call read {"path":"b"}`)
	}},
	{24, "ollama/ollama/pull/14656", func(t *testing.T) {
		ts := tools(t, writeTool)
		check(t, ts, nil, ids("<tool_call>write<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>content</arg_key><arg_value>text</tool_call><|observation|>"),
			`call write {"path":"a","content":"text"} (</arg_value> is missing)`)
		events := parse(t, ts, nil, ids("<tool_call>write<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>content</arg_key><arg_value>text</tool_call>\n<|observation|>"), 0)
		if c, ok := events[len(events)-1].(ToolCall); !ok || !strings.HasSuffix(c.Raw, "text</tool_call>") {
			t.Errorf("have %s, raw text %q", show(t, events), c.Raw)
		}
		check(t, ts, nil, ids("<tool_call>write<arg_key>path</arg_key><arg_value>a</tool_call><|observation|>"),
			`bad write (the message ended inside the call)`)
		// Cut off, the rest of the value may be missing too.
		check(t, ts, nil, ids("<tool_call>write<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>content</arg_key><arg_value>text</tool_call>"),
			`bad write (the message ended inside the call)`)
		// Between two arguments the tags may as well be text.
		check(t, ts, nil, ids("<tool_call>write<arg_key>path</arg_key><arg_value>a<arg_key>content</arg_key><arg_value>text</arg_value></tool_call><|observation|>"),
			`bad write (the message ended inside the call)`)
	}},
	{25, "getsigit/sigit/pull/95", func(t *testing.T) {
		ts := tools(t, readTool)
		check(t, ts, nil, ids("<tool_call>read<tool_call>path</arg_key><arg_value>a</arg_value></tool_call><|observation|>"),
			`call read {"path":"a"} (<tool_call> in the place of <arg_key>)`)
		check(t, ts, nil, ids("<tool_call>other<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call><|observation|>"),
			`bad other (no such tool)`, `call read {"path":"a"}`)
		check(t, ts, nil, ids("<tool_call><tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call><|observation|>"),
			`call read {"path":"a"} (a tag stands twice)`)
	}},
	{26, "ml-explore/mlx-lm/pull/792", func(t *testing.T) {
		ts := tools(t, readTool)
		check(t, ts, nil, ids(`<tool_call>{"name": "read", "arguments": {"path": "a", "line": 123456789012345678901}}</tool_call><|observation|>`),
			`call read {"path": "a", "line": 123456789012345678901} (written as JSON)`)
		check(t, ts, nil, ids(`<tool_call>{"name": "read", "arguments": {"path": "<arg_key></arg_value><tool_call>"}}</tool_call><|observation|>`),
			`call read {"path": "<arg_key></arg_value><tool_call>"} (written as JSON)`)
		check(t, ts, nil, ids("<tool_call>read\n{\"path\": \"a\"}</tool_call><|observation|>"),
			`call read {"path": "a"} (written as JSON)`)
		for body, fault := range map[string]Fault{
			`{"name": "read", "arguments": {"path": "a"`:                     BadJSON,
			`{"name": "read", "arguments": {"path": "a"}, "more": 1}`:        BadJSON,
			`{"name": "read", "arguments": {"path": "a", "path": "b"}}`:      RepeatedKey,
			`{"name": "read", "arguments": {"path": "a", "line": "2"}}`:      BadValue,
			`{"name": "read", "arguments": {" ": ""}}`:                       BadKey,
			`{"name": "read", "arguments": {" path": "a", "path": "b"}}`:     BadKey,
			`{"name": "reed", "arguments": {"path": "a"}}`:                   UnknownTool,
			`{"name": "read", "arguments": "{\"path\": \"a\"}"}`:             BadJSON,
			`[{"name": "read", "arguments": {"path": "a"}}]`:                 BadJSON,
			`{"name": "read", "name": "read", "arguments": {"path": "a"}}`:   BadJSON,
			`{"name": "read", "arguments": {"path": "a"}, "parameters": {}}`: BadJSON,
			`{"name": "read", "arguments": {"path": "a"}} x`:                 BadJSON,
			"read {\"path\": \"a\"} x":                                       BadJSON,
			"{\"name\": \"read\", \"arguments\": {\"path\": \"\xff\"}}":      BadJSON,
			`read path=a`:    UnknownTool,
			`read(path="a")`: UnknownTool,
		} {
			events := parse(t, ts, nil, ids("<tool_call>", body, "</tool_call><|observation|>"), 0)
			if bad, ok := events[len(events)-1].(BadToolCall); !ok || bad.Err.Fault != fault || bad.Raw != "<tool_call>"+body+"</tool_call>" {
				t.Errorf("%s: have %s", body, show(t, events))
			}
		}
	}},
	{27, "ggml-org/llama.cpp/pull/15186", func(t *testing.T) {
		const object = `{"tool_calls":[{"name":"read","arguments":{"path":"a"}}]}`
		check(t, tools(t, readTool), nil, ids(wire("read", "path", "a"), object, "<|user|>"),
			`call read {"path":"a"}`, fmt.Sprintf("text %q", object))
	}},
	{28, "local-inference-lab/vllm/pull/639", tagsInValues},
	{29, "antirez/ds4/issues/569", typedValues},
	{30, "sgl-project/sglang/pull/12456", func(t *testing.T) {
		ts := tools(t, `todo {"properties":{"items":{"type":"array","items":{"type":"object"}}}}`)
		check(t, ts, nil, ids(wire("todo", "items", `[\n  {\"text\": \"a \\\"b\\\"\", \"done\": false}\n]`), "<|observation|>"),
			`call todo {"items":[`+"\n  "+`{"text": "a \"b\"", "done": false}`+"\n"+`]} (a value is not plain JSON)`)
		check(t, ts, nil, ids(wire("todo", "items", `"[{\"text\": \"a\"}]"`), "<|observation|>"),
			`call todo {"items":[{"text": "a"}]} (a value is not plain JSON)`)
	}},
	{31, "vllm-project/vllm/pull/36410", func(t *testing.T) {
		events := parse(t, tools(t, readTool), nil, ids(wire("read", "path", "a", "line", "7")), 0)
		var args struct {
			Path string
			Line int
		}
		if err := json.Unmarshal(events[len(events)-1].(ToolCall).Arguments, &args); err != nil || args.Path != "a" || args.Line != 7 {
			t.Errorf("decoded once: %+v, %v", args, err)
		}
	}},
	{32, "ggml-org/llama.cpp/pull/15186", func(t *testing.T) {
		check(t, tools(t, readTool), nil, ids(wire("read", "path", "a\nb\\nc\td"), "<|observation|>"),
			`call read {"path":"a\nb\\nc\td"}`)
	}},
	{33, "noonghunna/club-3090/issues/1195", func(t *testing.T) {
		ts := tools(t, readTool, `set {"properties":{"values":{"type":"object"}}}`)
		events := check(t, ts, nil, ids(wire("set", "values", `{"a": 1,, "b"`), wire("read", "path", "a"), "<|observation|>"),
			`bad set (a value has the wrong type)`, `call read {"path":"a"}`)
		bad := events[1].(BadToolCall)
		if want := "reply: tool call 0, argument 1, byte 50: a value has the wrong type: want an object or null, have text that is no JSON value"; bad.Err.Error() != want {
			t.Errorf("want error %q\nhave %q", want, bad.Err.Error())
		}
		if bad.Raw != wire("set", "values", `{"a": 1,, "b"`) {
			t.Errorf("raw text is %q", bad.Raw)
		}
	}},
	{34, "vllm-project/vllm/blob/main/tests/tool_parsers/test_glm47_moe_tool_parser.py", func(t *testing.T) {
		check(t, tools(t, readTool), nil, ids(wire("read", "path", "  Beijing \n "), "<|observation|>"),
			`call read {"path":"  Beijing \n "}`)
	}},
	{35, "vllm-project/vllm/issues/34449", func(t *testing.T) {
		ts := tools(t, readTool, writeTool, timeTool)
		message := ids("Hm.</think>Ok.\n", wire("read", "path", "a", "line", "12"), wire("get_current_time"), wire("write", "path", "中文", "content", "{\"\n\n"), "<|observation|>")
		whole := parse(t, ts, thinking, message, 0)
		for n := 1; n <= len(message); n++ {
			if have := parse(t, ts, thinking, message, n); show(t, have) != show(t, whole) {
				t.Fatalf("%d tokens a step:\n%s", n, show(t, have))
			}
		}
	}},
	{36, "vllm-project/vllm-ascend/issues/5596", func(t *testing.T) {
		p, err := New(vocabulary(), tools(t, readTool), nil)
		if err != nil {
			t.Fatal(err)
		}
		events := p.Append(nil, ids("<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value>")...)
		events = p.Append(events, ids("</tool_call><tool_call>")...)
		events = p.Append(events, ids("read<arg_key>path</arg_key><arg_value>b</arg_value></tool_call><|observation|>")...)
		if have, want := show(t, events), "call read {\"path\":\"a\"}\ncall read {\"path\":\"b\"}\n"; have != want {
			t.Errorf("want\n%shave\n%s", want, have)
		}
	}},
	{37, "vllm-project/vllm/issues/32829", func(t *testing.T) {
		for _, schema := range []string{
			`{"type":"string"}`, `{"type":["string","null"]}`, `{"anyOf":[{"type":"null"},{"type":"string"}]}`, `{}`,
		} {
			p, err := New(vocabulary(), tools(t, `write {"properties":{"content":`+schema+`}}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			p.Append(nil, ids("<tool_call>write<arg_key>content</arg_key><arg_value>")...)
			for _, id := range ids("Once upon a time") {
				if events := p.Append(nil, id); len(events) != 1 {
					t.Errorf("%s: %d events after a token of a string", schema, len(events))
				}
			}
		}
		p, err := New(vocabulary(), tools(t, `write {}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Append(nil, ids("<tool_call>write<arg_key>content</arg_key><arg_value>5")...)
		if events := p.Append(nil, ids(" times")...); len(events) != 1 {
			t.Errorf("%d events after text that is no number", len(events))
		}
	}},
	{38, "zai-org/GLM-4.5/issues/146", func(t *testing.T) {
		ts := tools(t, `set {"properties":{"s":{"type":"string"},"i":{"type":"integer"},"a":{"type":"array"},"o":{"type":"object"},"n":{"type":["string","null"]}}}`)
		// check compares the sum of the deltas with the arguments.
		check(t, ts, nil, ids(wire("set", "s", `"quoted" \ `, "i", "-7", "a", `[1, "x"]`, "o", `{"k": {}}`, "n", "null"), "<|observation|>"),
			`call set {"s":"\"quoted\" \\ ","i":-7,"a":[1, "x"],"o":{"k": {}},"n":null}`)
	}},
	{39, "vllm-project/vllm/blob/main/tests/tool_parsers/test_glm47_final_delta_bug.py", func(t *testing.T) {
		p, err := New(vocabulary(), tools(t, readTool), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := ids(wire("read", "path", "a"))
		events := p.Append(nil, body[:len(body)-2]...)
		events = p.Append(events, body[len(body)-2:]...)
		events = p.Finish(events)
		if have, want := show(t, merge(events)), "call read {\"path\":\"a\"}\n"; have != want {
			t.Errorf("want\n%shave\n%s", want, have)
		}
		check(t, nil, nil, ids("cut \xf0\x9f"), "text \"cut \uFFFD\"")
	}},
	{40, "vllm-project/vllm/issues/39574", nil},
	{41, "lmstudio-ai/lmstudio-bug-tracker/issues/1528", func(t *testing.T) {
		ts := tools(t, readTool)
		check(t, ts, nil, ids(wire("read", "path", "1"), "\n", wire("read", "path", "2"), wire("read", "path", "3"), "\n<|observation|>"),
			`call read {"path":"1"}`, `call read {"path":"2"}`, `call read {"path":"3"}`)
	}},
	{42, "lmstudio-ai/lmstudio-bug-tracker/issues/1992", func(t *testing.T) {
		for _, end := range stopSpelling {
			check(t, tools(t, readTool), nil, ids("Four.", end, "And 3+3?<|assistant|>Six.", wire("read", "path", "a")), `text "Four."`)
		}
	}},
	{43, "waybarrios/vllm-mlx/pull/348", func(t *testing.T) {
		added := tokenizer.GLMAdded(256)
		for i := range added {
			added[i].Special = true
		}
		tok := bytesOnly(t, added)
		p, err := New(tok, tools(t, readTool), nil)
		if err != nil {
			t.Fatal(err)
		}
		have := show(t, p.Append(nil, tok.EncodeWithAdded(nil, wire("read", "path", "a")+"<|observation|>")...))
		if want := "call read {\"path\":\"a\"}\n"; have != want {
			t.Errorf("want %s, have %s", want, have)
		}
	}},
	{44, "pwilkin/llama.cpp/issues/5", func(t *testing.T) {
		ts := tools(t, readTool)
		check(t, ts, nil, ids("Hm\n</arg_key>\n", wire("read", "path", "a"), "\n\n<|observation|>"),
			`text "Hm\n</arg_key>"`, `call read {"path":"a"}`)
		check(t, ts, nil, ids("</tool_call></arg_value><arg_key><arg_value></think><|user|>"),
			`text "</tool_call></arg_value><arg_key><arg_value></think>"`)
	}},
	{45, "noonghunna/club-3090/issues/1250", nil},
	{46, "ggml-org/llama.cpp/pull/14939", nil},
	{47, "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/pull/156", func(t *testing.T) {
		// The other half of it is the renderer's. A message with calls only has
		// no text here, not even an empty delta.
		check(t, tools(t, readTool), thinking, ids("</think>", wire("read", "path", "a"), "<|observation|>"), `call read {"path":"a"}`)
	}},
	{48, "sgl-project/sglang/pull/20275", func(t *testing.T) {
		for _, first := range []int32{256, 1000} {
			tok := bytesOnly(t, tokenizer.GLMAdded(first))
			p, err := New(tok, nil, tok.EncodeWithAdded(nil, "<|assistant|><think>"))
			if err != nil {
				t.Fatal(err)
			}
			if !p.InReasoning() {
				t.Errorf("control tokens from %d: <think> in the prompt was not seen", first)
			}
			p.Append(nil, tok.EncodeWithAdded(nil, "Hm.</think>")...)
			if p.InReasoning() {
				t.Errorf("control tokens from %d: </think> was not seen", first)
			}
		}
	}},
}

// thinking is a prompt that leaves the reasoning open.
var thinking = ids("[gMASK]<sop><|user|>hi<|assistant|><think>")

// wire writes a call in the compact format.
func wire(name string, args ...string) string {
	s := "<tool_call>" + name
	for i := 0; i < len(args); i += 2 {
		s += "<arg_key>" + args[i] + "</arg_key><arg_value>" + args[i+1] + "</arg_value>"
	}
	return s + "</tool_call>"
}

// zeroArguments: reports 12, 13 and 15.
func zeroArguments(t *testing.T) {
	ts := tools(t, timeTool)
	check(t, ts, nil, ids("<tool_call>get_current_time</tool_call><|observation|>"), `call get_current_time {}`)
	check(t, ts, nil, ids("<tool_call>get_current_time\n</tool_call><|observation|>"), `call get_current_time {}`)
	check(t, ts, nil, ids("<tool_call>get_current_time</tool_call>\n<tool_call>get_current_time</tool_call><|observation|>"),
		`call get_current_time {}`, `call get_current_time {}`)
}

func TestReports(t *testing.T) {
	for _, r := range reports {
		if r.test != nil {
			t.Run(fmt.Sprintf("%02d", r.number), r.test)
		}
	}
}

// TestReportsTable holds REPORTS.md against the tests: one line for each report,
// with its link, and a reason in place of a test exactly where there is no test.
func TestReportsTable(t *testing.T) {
	page, err := os.ReadFile("REPORTS.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\| (\d+) \| \[[^\]]+\]\(https://github\.com/([^)]+)\) \| (.+?) \| (.+) \|$`)
	found := line.FindAllStringSubmatch(string(page), -1)
	if len(found) != 48 || len(reports) != 48 {
		t.Fatalf("want 48 reports, have %d in the table and %d tests", len(found), len(reports))
	}
	for i, f := range found {
		r := reports[i]
		if f[1] != fmt.Sprint(i+1) || r.number != i+1 || f[2] != r.link {
			t.Errorf("line %d: table has %s, %s; tests have %d, %s", i+1, f[1], f[2], r.number, r.link)
		}
		if cannot := strings.HasPrefix(f[4], "Cannot arise here: "); cannot != (r.test == nil) {
			t.Errorf("report %d: has a test is %v, the table says %q", r.number, r.test != nil, f[4])
		}
	}
}

// bytesOnly is a tokenizer of single bytes and control tokens.
func bytesOnly(t testing.TB, added []tokenizer.Added) *tokenizer.Tokenizer {
	t.Helper()
	var ranks strings.Builder
	for i := range 256 {
		fmt.Fprintf(&ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	tok, err := tokenizer.ParseRanks([]byte(ranks.String()), added)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
