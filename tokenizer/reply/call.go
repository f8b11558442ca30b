package reply

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// call is a tool call while it is read.
type call struct {
	index  int
	dreamt bool    // it stands inside the reasoning
	ids    []int32 // all tokens so far, from <tool_call> on
	size   int     // their bytes

	word  []byte // the name or the key being read
	name  string // the tool, as far as it is known
	tool  *tool
	key   string
	args  []byte // the arguments as JSON, complete but for the end
	set   map[string]bool
	count int // arguments begun
	value value

	// Inside a value: how far a call that is quoted there has come, and how many
	// of its values are open.
	quoted quoted
	depth  int
	tagged bool // some tag stands in the value
	bare   bool // the tag before it is missing: its <arg_value>, or </arg_key>
	at     int  // the byte of the call where the value starts
	// look is the index in ids of the first token that is either structure or
	// part of the value, while that is undecided.
	look int
	// last is the number of ids up to and including </tool_call>; fromValue is
	// whether a value came right before it.
	last      int
	fromValue bool
	doubt     *doubt

	named    bool // the tool is declared, so deltas may be given
	sent     int  // bytes of args in deltas
	opened   bool // the first delta was given
	repaired Fault
	err      *CallError
}

// doubt is about a call that ended, as it seemed, and that something follows which
// rarely follows a call. More likely the tags that ended it are quoted in its
// last value, so the value goes on; but nothing behind them is delivered before
// the end of the value turns up. If it does not, the call was over.
type doubt struct {
	args  int // bytes of args before the tags
	value valueState
	err   *CallError // as it was there
	last  int        // ids up to and including </tool_call>
	torn  bool       // the end of some value turned up, but not of this call
}

// quoted says how much of <arg_key>..</arg_key><arg_value> stands in a value.
type quoted uint8

const (
	quotedNothing quoted = iota
	quotedKey
	quotedKeyEnd
)

func newCall(index int, dreamt bool, id int32, spelling []byte) *call {
	return &call{
		index: index, dreamt: dreamt,
		ids: append(make([]int32, 0, 64), id), size: len(spelling),
	}
}

// fail notes the first fault. What was certain before it is delivered, so that
// the deltas do not depend on where the chunks end.
func (p *Parser) fail(c *call, f Fault, want, have string) {
	if c.err != nil {
		return
	}
	p.out = c.deliver(p.out)
	c.err = &CallError{Fault: f, Index: c.index, Arg: c.count, Offset: c.size, Want: want, Have: have}
	c.value.mode = dropping
}

// mend notes the first slip that was mended.
func (c *call) mend(f Fault) {
	if c.repaired == Sound {
		c.repaired = f
	}
}

// deliver adds the delta that is due.
func (c *call) deliver(out []Event) []Event {
	if !c.named || c.dreamt || c.err != nil {
		return out
	}
	certain := len(c.args)
	if c.doubt != nil {
		certain = c.doubt.args
	}
	if c.opened && c.sent == certain {
		return out
	}
	d := ToolCallDelta{Index: c.index, Arguments: string(c.args[c.sent:certain])}
	if !c.opened {
		d.Name = c.name
	}
	c.opened = true
	c.sent = certain
	return append(out, d)
}

// setName resolves the name of the tool.
func (p *Parser) setName(c *call, text string) {
	name, t := p.tools.find(text)
	if t == nil {
		c.name, c.tool = strings.Trim(text, blanks), undeclared
		p.fail(c, UnknownTool, "", "")
		return
	}
	c.open(name, t)
}

func (c *call) open(name string, t *tool) {
	c.name, c.tool, c.named = name, t, true
	c.args = append(c.args, '{')
}

// takesKey reports whether text after </arg_value><arg_key> stands for a
// parameter. One that the schema does not list is believed only if the value
// before it holds no other tags.
func (c *call) takesKey(text []byte) bool {
	_, _, listed := c.tool.find(string(text))
	return listed || !c.tagged && isName(string(text))
}

// setKey resolves the name of a parameter and begins its argument.
func (p *Parser) setKey(c *call, text []byte) {
	key, s, listed := c.tool.find(string(text))
	c.key = key
	c.count++
	switch {
	case c.err != nil:
		return
	case s == nil:
		p.fail(c, UnknownParameter, "", "")
		return
	case !listed && !isName(key):
		p.fail(c, BadKey, "", "")
		return
	case c.set[key]:
		p.fail(c, RepeatedKey, "", "")
		return
	}
	if c.set == nil {
		c.set = map[string]bool{}
	}
	c.set[key] = true
	if len(c.set) > 1 {
		c.args = append(c.args, ',')
	}
	c.args = append(c.args, '"')
	c.args, _, _ = appendEscaped(c.args, []byte(key))
	c.args = append(c.args, '"', ':')
}

// setValue begins the value of the argument.
func (c *call) setValue(at int) {
	c.quoted, c.depth, c.tagged, c.bare, c.at = quotedNothing, 0, false, false, at
	if c.err != nil {
		c.value.begin(nil, nil)
		return
	}
	_, s, _ := c.tool.find(c.key)
	c.args = c.value.begin(c.args, s)
}

// closeValue ends the value of the argument.
func (p *Parser) closeValue(c *call) {
	var f Fault
	var have string
	c.doubt = nil
	c.args, f, have = c.value.close(c.args)
	switch f {
	case Sound:
		return
	case LooseValue:
		c.mend(f)
		return
	case BadValue:
		p.fail(c, f, kindText(c.value.shape.kinds), have)
	default:
		p.fail(c, f, "", "")
	}
	c.err.Offset = c.at
}

// isComplete reports whether every required parameter has a value.
func (c *call) isComplete() bool {
	for _, r := range c.tool.required {
		if !c.set[r] {
			return false
		}
	}
	return true
}

// event returns the call as the event that it comes to.
func (c *call) event(tok *tokenizer.Tokenizer) Event {
	raw := string(tok.Raw(make([]byte, 0, c.size), c.ids[:c.last]...))
	if c.err != nil {
		return BadToolCall{Index: c.index, Name: c.name, Raw: raw, Err: c.err}
	}
	return ToolCall{Index: c.index, Name: c.name, Arguments: json.RawMessage(c.args), Raw: raw, Repaired: c.repaired}
}

// isName reports whether a parameter that the schema does not list is believed:
// letters, digits and the signs that names are made of.
func isName(s string) bool {
	s = strings.Trim(s, blanks)
	if s == "" || len(s) > maxName {
		return false
	}
	for _, r := range s {
		if !isNameRune(r) {
			return false
		}
	}
	return true
}

func isNameRune(r rune) bool {
	switch r {
	case '_', '-', '.', ':', '/', '$', '@', '#', '+', '[', ']':
		return true
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}
