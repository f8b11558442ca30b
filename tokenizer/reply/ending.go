package reply

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
	switch whole := stopped && !c.tagged; {
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
