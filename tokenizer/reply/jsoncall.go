package reply

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"
)

// jsonCall reads a call that the model wrote as JSON between <tool_call> and
// </tool_call>: {"name": ..., "arguments": {...}}, or the name of a declared tool
// and then the arguments. That loses nothing as long as the values have the
// types that the schema allows.
func (p *Parser) jsonCall(c *call, text string) {
	text = strings.Trim(text, blanks)
	name, args, ok := "", "", false
	if text[0] == '{' {
		name, args, ok = unwrapCall(text)
	} else if brace := strings.IndexByte(text, '{'); brace > 0 && text[0] != '[' {
		name, args, ok = text[:brace], text[brace:], true
	}
	if !ok {
		p.fail(c, BadJSON, "", "")
		return
	}
	found, t := p.tools.find(name)
	if t == nil {
		c.name = strings.Trim(name, blanks)
		p.fail(c, UnknownTool, "", "")
		return
	}
	c.name, c.tool = found, t
	ok = utf8.ValidString(args) && eachMember(args, func(key string, val json.RawMessage) bool {
		c.count++
		name, s, listed := t.find(key)
		switch {
		case s == nil:
			p.fail(c, UnknownParameter, "", "")
		case name != key || !listed && !isName(key): // the text is taken as it is, blanks in keys too
			p.fail(c, BadKey, "", "")
		case c.set[key]:
			p.fail(c, RepeatedKey, "", "")
		case classify(val)&s.kinds == 0:
			p.fail(c, BadValue, kindText(s.kinds), kindText(classify(val)))
		}
		if c.set == nil {
			c.set = map[string]bool{}
		}
		c.set[key] = true
		return true
	})
	if !ok {
		p.fail(c, BadJSON, "", "")
	}
	if c.err != nil {
		return
	}
	c.mend(JSONCall)
	c.named = true
	c.args = append(c.args, strings.TrimSuffix(args, "}")...)
}

// unwrapCall takes {"name": ..., "arguments": ...} apart.
func unwrapCall(text string) (name, args string, ok bool) {
	ok = eachMember(text, func(key string, val json.RawMessage) bool {
		switch key {
		case "name":
			return name == "" && json.Unmarshal(val, &name) == nil && name != ""
		case "arguments", "parameters":
			if args != "" || val[0] != '{' {
				return false
			}
			args = string(val)
			return true
		}
		return false
	})
	return name, args, ok && name != "" && args != ""
}

// eachMember calls f for the members of a JSON object in their order. It reports
// whether the text is an object, and nothing else, and f liked all members.
func eachMember(text string, f func(key string, val json.RawMessage) bool) bool {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return false
		}
		var val json.RawMessage
		if d.Decode(&val) != nil || !f(key, val) {
			return false
		}
	}
	if _, err := d.Token(); err != nil {
		return false
	}
	_, err := d.Token()
	return err == io.EOF
}
