package reply

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

// quote adds a token to the value, whatever it means elsewhere. Where the tag
// before the value is missing, other tags may be missing too: what looks quoted may
// be the next argument or the next call.
func (p *Parser) quote(c *call, b []byte, m mark) {
	if c.bare && m >= callOpen {
		p.stray(c, m, markSpelling[valueClose])
	}
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
