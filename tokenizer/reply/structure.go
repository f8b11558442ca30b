package reply

import (
	"bytes"
	"unicode"
)

// callStep reads a token inside a call. It reports false if the token is to be
// read again in the state that it led to.
func (p *Parser) callStep(c *call, id int32, m mark) bool {
	b := p.tok.Bytes(id)
	switch p.state {
	case inName:
		return p.readName(c, b, m)
	case inKey:
		return p.readKey(c, b, m)
	case beforeValue:
		return p.readGap(c, b, m)
	case inValue:
		return p.readValue(c, b, m)
	case afterValue:
		return p.readAfterValue(c, b, m)
	case inNextKey:
		return p.readNextKey(c, b, m)
	case inBareKey:
		return p.readBareKey(c, b, m)
	case afterCut:
		if isText(m) && isBlank(b) {
			return true
		}
		return p.undecide(c)
	case inDebris:
		return p.readDebris(c, b, m)
	default:
		return p.readAfterCall(c, b, m)
	}
}

// isText reports whether a token has no meaning inside a call.
func isText(m mark) bool { return m < thinkOpen }

func isBlank(b []byte) bool { return len(bytes.Trim(b, blanks)) == 0 }

// stray notes a tag that has no business where it stands.
func (p *Parser) stray(c *call, m mark, want string) {
	p.fail(c, StrayTag, want, markSpelling[m])
}

// readName reads the name of the tool.
func (p *Parser) readName(c *call, b []byte, m mark) bool {
	asJSON := isJSONStart(c.word)
	switch {
	case m == callClose:
		p.endOfName(c, asJSON)
		p.endCall(c)
	case m == thinkClose && c.dreamt:
		p.speak()
		return false
	case isText(m) || asJSON || m == thinkOpen || m == thinkClose:
		c.word = append(c.word, b...)
		if !p.tools.mayBeCall(c.word) {
			p.speak()
			return false
		}
	case m == keyOpen:
		p.setName(c, string(c.word))
		p.beginKey(c)
	case m == callOpen:
		if isBlank(c.word) {
			c.mend(RepeatedTag)
			return true
		}
		p.setName(c, string(c.word))
		if c.err != nil {
			return p.dropCall(c)
		}
		c.mend(WrongOpeningTag)
		p.beginKey(c)
	case m == keyClose:
		if name, key, t := p.tools.split(string(c.word)); t != nil {
			c.open(name, t)
			c.mend(MissingKeyOpen)
			p.setKey(c, []byte(key))
		} else {
			p.setName(c, string(c.word))
			p.stray(c, m, markSpelling[keyOpen])
		}
		p.beginGap(c)
	case m == valueOpen:
		p.setName(c, string(c.word))
		p.stray(c, m, markSpelling[keyOpen])
		p.beginValue(c, c.size+len(b))
	default: // </arg_value>: there may have been a value
		p.setName(c, string(c.word))
		p.stray(c, m, markSpelling[callClose])
		p.state = inDebris
	}
	return true
}

// endOfName reads a call without tags between <tool_call> and </tool_call>: a
// name alone, or JSON.
func (p *Parser) endOfName(c *call, asJSON bool) {
	text := string(c.word)
	if _, t := p.tools.find(text); t == nil && (asJSON || bytes.IndexByte(c.word, '{') > 0) {
		p.jsonCall(c, text)
		return
	}
	p.setName(c, text)
}

func (p *Parser) beginKey(c *call) {
	c.word = c.word[:0]
	p.state = inKey
}

// readKey reads the name of a parameter after an <arg_key> that is certain.
func (p *Parser) readKey(c *call, b []byte, m mark) bool {
	switch m {
	case keyClose:
		p.setKey(c, c.word)
		p.beginGap(c)
	case valueOpen:
		c.mend(MissingKeyClose)
		p.setKey(c, c.word)
		p.beginValue(c, c.size+len(b))
	case keyOpen:
		if isBlank(c.word) {
			c.mend(RepeatedTag)
		} else {
			p.stray(c, m, markSpelling[keyClose])
		}
		p.beginKey(c)
	case valueClose:
		p.stray(c, m, markSpelling[keyClose])
		p.state = inDebris
	case callClose:
		p.stray(c, m, markSpelling[keyClose])
		p.endCall(c)
	case callOpen:
		p.stray(c, m, markSpelling[keyClose])
		return p.dropCall(c)
	default:
		c.word = append(c.word, b...)
	}
	return true
}

// beginGap starts to look for <arg_value>. Blanks on the way are kept in case
// that it is missing and they belong to the value.
func (p *Parser) beginGap(c *call) {
	c.word = c.word[:0]
	p.state = beforeValue
}

// readGap reads what stands between </arg_key> and <arg_value>.
func (p *Parser) readGap(c *call, b []byte, m mark) bool {
	switch m {
	case valueOpen:
		p.beginValue(c, c.size+len(b))
	case keyClose:
		c.mend(RepeatedTag)
	case keyOpen:
		p.stray(c, m, markSpelling[valueOpen])
		p.beginKey(c)
	case valueClose:
		p.stray(c, m, markSpelling[valueOpen])
		p.state = inDebris
	case callClose:
		p.stray(c, m, markSpelling[valueOpen])
		p.endCall(c)
	case callOpen:
		p.stray(c, m, markSpelling[valueOpen])
		return p.dropCall(c)
	case thinkOpen, thinkClose:
		p.openValue(c, 0)
		return false
	default:
		c.word = append(c.word, b...)
		if !isBlank(b) {
			p.openValue(c, len(b))
		}
	}
	return true
}

// openValue starts a value without <arg_value> at the text that was read instead.
// A line end before it is the layout of GLM-4.5.
// The call does not count the last bytes of it yet.
func (p *Parser) openValue(c *call, last int) {
	c.mend(MissingValueOpen)
	text := bytes.TrimPrefix(c.word, []byte("\n"))
	p.beginValue(c, c.size+last-len(text))
	p.addValue(c, text)
}

// beginValue starts a value whose text starts at a byte of the call.
func (p *Parser) beginValue(c *call, at int) {
	c.setValue(at)
	p.state = inValue
}

// addValue adds text to the value.
func (p *Parser) addValue(c *call, b []byte) {
	var ok bool
	if c.args, ok = c.value.write(c.args, b); !ok {
		p.fail(c, BadUTF8, "", "")
	}
}

// readValue reads a value. The tags inside it may be part of it, in the very ids
// that are the structure of the call: that is how a model writes about tags. So
// no tag but </arg_value> means anything here, and that one only if a tag
// follows that can follow, and if no <arg_value> of a call quoted in the value
// waits for it.
func (p *Parser) readValue(c *call, b []byte, m mark) bool {
	switch {
	case m == valueClose && c.depth == 0:
		c.look = len(c.ids)
		p.state = afterValue
	case m == callClose && c.depth == 0:
		c.look = len(c.ids)
		p.state = afterCut
	default:
		p.quote(c, b, m)
	}
	return true
}

// quote adds a token to the value, whatever it means elsewhere.
func (p *Parser) quote(c *call, b []byte, m mark) {
	p.addValue(c, b)
	c.tagged = c.tagged || !isText(m)
	if c.doubt != nil && m == valueClose && c.depth == 0 {
		c.doubt.torn = true
	}
	switch {
	case m == keyOpen:
		c.quoted = quotedKey
	case m == keyClose && c.quoted == quotedKey:
		c.quoted = quotedKeyEnd
	case m == valueOpen && c.quoted == quotedKeyEnd:
		c.depth++
		c.quoted = quotedNothing
	case m == valueClose && c.depth > 0:
		c.depth--
		c.quoted = quotedNothing
	case !isText(m) || c.quoted == quotedKeyEnd && !isBlank(b):
		c.quoted = quotedNothing
	}
}

// undecide makes everything since the last candidate for the end of the value a
// part of the value. The token at hand is then read again.
func (p *Parser) undecide(c *call) bool {
	for _, id := range c.ids[c.look:] {
		p.quote(c, p.tok.Bytes(id), p.marks.of(id))
	}
	p.state = inValue
	return false
}

// readAfterValue reads on after an </arg_value>. It ends the value if the next
// thing is <arg_key> or </tool_call>.
func (p *Parser) readAfterValue(c *call, b []byte, m mark) bool {
	switch {
	case m == keyOpen:
		c.word = c.word[:0]
		p.state = inNextKey
	case m == callClose:
		c.last = len(c.ids) + 1
		c.fromValue = true
		p.state = afterCall
	case !isText(m):
		return p.undecide(c)
	case !isBlank(b):
		c.word = c.word[:0]
		p.state = inBareKey
		return false
	}
	return true
}

// readNextKey reads the parameter after </arg_value><arg_key>. If it is none, the
// tags are part of the value.
func (p *Parser) readNextKey(c *call, b []byte, m mark) bool {
	switch {
	case isText(m):
		c.word = append(c.word, b...)
		if len(c.word) > c.tool.longest+maxName {
			return p.undecide(c)
		}
	case m == keyOpen && isBlank(c.word):
	case (m == keyClose || m == valueOpen) && c.takesKey(c.word):
		if p.twice(c, keyOpen) {
			c.mend(RepeatedTag)
		}
		p.closeValue(c)
		p.state = inKey
		return false
	default:
		return p.undecide(c)
	}
	return true
}

// twice reports whether a tag stands twice since the value may have ended.
func (p *Parser) twice(c *call, m mark) bool {
	n := 0
	for _, id := range c.ids[c.look:] {
		if p.marks.of(id) == m {
			n++
		}
	}
	return n > 1
}

// readBareKey reads text after </arg_value>. If it is a declared parameter and
// </arg_key> follows, just the <arg_key> before it is missing.
func (p *Parser) readBareKey(c *call, b []byte, m mark) bool {
	switch {
	case isText(m):
		c.word = append(c.word, b...)
		if !c.tool.mayBegin(c.word) {
			return p.undecide(c)
		}
		return true
	case m == keyClose:
		if key, _, declared := c.tool.find(string(c.word)); declared && !c.set[key] {
			c.mend(MissingKeyOpen)
			p.closeValue(c)
			p.state = inKey
			return false
		}
	}
	return p.undecide(c)
}

// readDebris looks for the next tag after a tag that had no meaning, so that the
// rest of the call is not taken for something else.
func (p *Parser) readDebris(c *call, b []byte, m mark) bool {
	switch m {
	case keyOpen:
		p.beginKey(c)
	case keyClose:
		p.beginGap(c)
	case valueOpen:
		p.beginValue(c, c.size+len(b))
	case callClose:
		p.endCall(c)
	case callOpen:
		return p.dropCall(c)
	}
	return true
}

// endCall ends the call at the </tool_call> at hand.
func (p *Parser) endCall(c *call) {
	c.last = len(c.ids) + 1
	p.state = afterCall
}

// dropCall ends a bad call before the <tool_call> at hand, which begins another.
func (p *Parser) dropCall(c *call) bool {
	c.last = len(c.ids)
	p.handOut(c)
	return false
}

// readAfterCall waits for the token that shows whether the call is over: after a
// quoted </arg_value></tool_call> the real one is still to come.
func (p *Parser) readAfterCall(c *call, b []byte, m mark) bool {
	switch {
	case isText(m) && isBlank(b):
		return true
	case m == callClose:
		c.last = len(c.ids) + 1 // once more
		return true
	case m == callOpen || !c.fromValue || c.dreamt || p.rereading:
		p.handOut(c)
		return false
	case m == valueClose:
		c.fromValue = false
		return p.undecide(c)
	}
	d := &doubt{args: len(c.args), value: c.value.state(), err: c.err, last: c.last}
	c.fromValue = false
	p.undecide(c)
	c.doubt = d
	return false
}

// handOut makes an event of a call that is over.
func (p *Parser) handOut(c *call) {
	if c.fromValue {
		p.closeValue(c)
	}
	if c.err == nil {
		c.args = append(c.args, '}')
	}
	p.out = c.deliver(p.out)
	p.call = nil
	e := c.event(p.tok)
	if c.dreamt {
		p.state = inReasoning
		p.dreamt = append(p.dreamt, e)
		p.dreamtIDs = append(p.dreamtIDs, c.ids...)
		return
	}
	p.state = inText
	p.out = append(p.out, e)
	for _, id := range c.ids[c.last:] {
		p.speech.say(id)
	}
}

// endInCall ends the message inside a call. What the call lacks is mended only if
// the model ended the message, no required argument is missing, and no tag stands
// in the last value: a message that was cut off may lack anything, and a value
// with tags in it may have swallowed the rest of the call.
func (p *Parser) endInCall(stopped bool) {
	c := p.call
	if p.state == afterCall {
		p.handOut(c)
		return
	}
	if c.doubt != nil {
		p.recall(c, stopped)
		return
	}
	c.last = len(c.ids)
	switch whole := stopped && c.err == nil && !c.tagged; {
	case whole && p.state == afterValue && c.isComplete():
		c.mend(MissingCallClose)
		c.fromValue = true
	case whole && p.state == afterCut && c.isComplete():
		c.mend(MissingValueClose)
		c.fromValue = true
		c.last = c.look + 1
	default:
		p.fail(c, Unfinished, "", "")
	}
	p.handOut(c)
}

// recall ends a call where it first seemed to end, because no other end came, and
// reads what follows again. If the message was cut off, or the end of some value
// came, the call may have gone on after all, and all of it is bad.
func (p *Parser) recall(c *call, stopped bool) {
	d := c.doubt
	if d.torn || !stopped {
		c.last = len(c.ids)
		p.fail(c, Torn, "", "")
		p.handOut(c)
		return
	}
	rest := c.ids[d.last:]
	c.ids, c.last = c.ids[:d.last:d.last], d.last
	c.args, c.err, c.doubt = c.args[:d.args], d.err, nil
	c.value.goBack(d.value)
	c.size = len(p.tok.Raw(nil, c.ids...))
	c.fromValue = true
	p.handOut(c)
	p.rereading = true
	for _, id := range rest {
		p.step(id, p.marks.of(id))
	}
	if p.call != nil {
		p.endInCall(stopped)
	}
}

func isNameRune(r rune) bool {
	switch r {
	case '_', '-', '.', ':', '/', '$', '@', '#', '+', '[', ']':
		return true
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

func isJSONStart(b []byte) bool {
	b = bytes.TrimLeft(b, blanks)
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}
