package reply

import (
	"bytes"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// A Parser reads one message. It is for one goroutine.
type Parser struct {
	tok   *tokenizer.Tokenizer
	marks marks
	tools *Tools

	state  state
	speech speech
	out    []Event
	calls  int   // calls begun
	call   *call // the call being read, or read and not yet handed out

	// dreamt are calls that were written inside the reasoning. They count if the
	// model ends the message with them; if it goes on they were part of a thought.
	dreamt    []Event
	dreamtIDs []int32

	// rereading: tokens that were held for the value of a call are read again as
	// what follows it.
	rereading bool
}

// state is where in a message the parser stands.
type state uint8

const (
	inReasoning state = iota
	inText
	inName       // after <tool_call>
	inKey        // after <arg_key>
	beforeValue  // after </arg_key>
	inValue      // after <arg_value>
	afterValue   // after an </arg_value> that may be part of the value
	inNextKey    // and an <arg_key> that may be, too
	inBareKey    // and the beginning of a parameter in its place
	afterCut     // after a </tool_call> inside a value
	inDebris     // between the tags of a call that is bad
	afterCall    // after </tool_call>
	afterMessage // after the end
)

// New returns a parser for the answer to a prompt. The prompt tells whether the
// answer starts inside the reasoning: the last turn of the prompt opened a
// <think> and did not close it. It must be the ids that the model was given, not
// what the caller asked the template for. A nil prompt opens nothing.
//
// A tokenizer without the control tokens of GLM is a [*VocabularyError].
func New(tok *tokenizer.Tokenizer, tools *Tools, prompt []int32) (*Parser, error) {
	m, err := newMarks(tok)
	if err != nil {
		return nil, err
	}
	p := &Parser{tok: tok, marks: m, tools: tools, state: inText}
	p.speech.dec = tok.NewDecoder()
	if m.openThought(prompt) {
		p.state = inReasoning
		p.speech.reasoning = true
	}
	return p, nil
}

// Append reads more ids of the message, any number of them, and appends the
// events they complete to dst. The stop id that ends the message belongs in
// here: it tells a message that the model finished from one that was cut off.
// Ids after it are ignored.
func (p *Parser) Append(dst []Event, ids ...int32) []Event {
	p.out = dst
	for _, id := range ids {
		p.step(id, p.marks.of(id))
	}
	p.deliver()
	return p.take()
}

// Finish ends the message, if no stop id has done it, and appends the last events
// to dst. A call that is not complete is bad then.
func (p *Parser) Finish(dst []Event) []Event {
	p.out = dst
	p.end(false)
	return p.take()
}

func (p *Parser) take() []Event {
	out := p.out
	p.out = nil
	return out
}

// InReasoning reports whether the message is inside the reasoning, or ended
// there. A model that ended there and called nothing never answered: what it
// thought is all there is.
func (p *Parser) InReasoning() bool {
	return p.speech.reasoning
}

// deliver turns everything gathered into events.
func (p *Parser) deliver() {
	p.out = p.speech.flush(p.out)
	if p.call != nil {
		p.out = p.call.deliver(p.out)
	}
}

// step reads one token.
func (p *Parser) step(id int32, m mark) {
	switch {
	case p.state == afterMessage:
		return
	case m == stop:
		p.end(true)
		return
	}
	for {
		switch p.state {
		case inReasoning:
			p.reason(id, m)
			return
		case inText:
			p.say(id, m)
			return
		}
		c := p.call
		if p.callStep(c, id, m) {
			c.ids = append(c.ids, id)
			c.size += len(p.tok.Bytes(id))
			return
		}
	}
}

// reason reads a token inside the reasoning.
func (p *Parser) reason(id int32, m mark) {
	switch {
	case m == callOpen:
		p.begin(id)
	case m == thinkClose:
		p.out = p.speech.turn(p.out, false)
		p.state = inText
	case m == thinkOpen && !p.speech.thought && len(p.dreamt) == 0:
		// The prompt had opened the reasoning already.
	default:
		p.wake()
		p.speech.think(id)
	}
}

// say reads a token of the answer.
func (p *Parser) say(id int32, m mark) {
	fresh := !p.speech.begun && p.calls == 0
	switch {
	case m == callOpen:
		p.wake()
		p.begin(id)
	case m == thinkOpen && fresh:
		p.out = p.speech.turn(p.out, true)
		p.state = inReasoning
	case m == thinkClose && fresh:
		// The prompt had closed the reasoning already, or the model closed it
		// twice.
	case len(p.dreamt) > 0 && (m == thinkClose || p.blank(id)):
	default:
		p.wake()
		p.speech.say(id)
	}
}

func (p *Parser) blank(id int32) bool {
	return len(bytes.Trim(p.tok.Bytes(id), blanks)) == 0
}

// begin starts a call at <tool_call>.
func (p *Parser) begin(id int32) {
	p.speech.pause()
	p.out = p.speech.flush(p.out)
	p.call = newCall(p.calls, p.state == inReasoning, id, p.tok.Bytes(id))
	p.calls++
	p.state = inName
}

// speak gives the tokens of a call back to what it interrupted: it was none.
func (p *Parser) speak() {
	c := p.call
	p.call = nil
	p.calls--
	if !c.dreamt {
		p.state = inText
		for _, id := range c.ids {
			p.speech.say(id)
		}
		return
	}
	p.state = inReasoning
	p.wake()
	for _, id := range c.ids {
		p.speech.think(id)
	}
}

// wake turns calls that were written inside the reasoning back into reasoning,
// because the message goes on after them.
func (p *Parser) wake() {
	if len(p.dreamt) == 0 {
		return
	}
	p.calls -= len(p.dreamt)
	after := p.speech.reasoning
	p.out = p.speech.turn(p.out, true)
	for _, id := range p.dreamtIDs {
		p.speech.think(id)
	}
	p.out = p.speech.turn(p.out, after)
	p.dreamt, p.dreamtIDs = nil, nil
}

// end ends the message: by a stop id, or because no more ids will come.
func (p *Parser) end(stopped bool) {
	if p.state == afterMessage {
		return
	}
	if p.call != nil {
		p.endInCall(stopped)
	}
	if !stopped {
		p.wake() // the thought may have gone on
	}
	p.speech.pause()
	p.out = p.speech.flush(p.out)
	for _, e := range p.dreamt {
		if c, ok := e.(ToolCall); ok {
			p.out = append(p.out, ToolCallDelta{c.Index, c.Name, string(c.Arguments)})
		}
		p.out = append(p.out, e)
	}
	p.dreamt = nil
	p.state = afterMessage
}
