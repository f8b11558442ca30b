package reply

import (
	"bytes"
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
		c.bare = true
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
// A line end before it is the layout of GLM-4.5. The call does not count the last
// bytes of it yet.
func (p *Parser) openValue(c *call, last int) {
	c.mend(MissingValueOpen)
	text := bytes.TrimPrefix(c.word, []byte("\n"))
	p.beginValue(c, c.size+last-len(text))
	c.bare = true
	p.addValue(c, text)
}

// beginValue starts a value whose text starts at a byte of the call.
func (p *Parser) beginValue(c *call, at int) {
	c.setValue(at)
	p.state = inValue
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

func isJSONStart(b []byte) bool {
	b = bytes.TrimLeft(b, blanks)
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}
