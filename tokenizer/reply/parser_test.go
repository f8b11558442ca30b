package reply

import (
	"testing"
)

const (
	readTool  = `read {"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"}},"required":["path"]}`
	writeTool = `write {"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`
	timeTool  = `get_current_time {"type":"object","properties":{}}`
)

func TestSmoke(t *testing.T) {
	ts := tools(t, readTool, writeTool, timeTool)
	open := ids("<|user|>hi<|assistant|><think>")
	check(t, ts, open, ids("Hm.</think>I'll look.\n<tool_call>read<arg_key>path</arg_key><arg_value>a.go</arg_value><arg_key>line</arg_key><arg_value>12</arg_value></tool_call><tool_call>get_current_time</tool_call><|observation|>"),
		`think "Hm."`,
		`text "I'll look."`,
		`call read {"path":"a.go","line":12}`,
		`call get_current_time {}`)
	check(t, ts, nil, ids("\n<think>Hm.</think>\nI'll look.\n<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.go</arg_value>\n<arg_key>line</arg_key>\n<arg_value>12</arg_value>\n</tool_call>\n<tool_call>get_current_time\n</tool_call><|observation|>"),
		`think "Hm."`,
		`text "I'll look."`,
		`call read {"path":"a.go","line":12}`,
		`call get_current_time {}`)
}
