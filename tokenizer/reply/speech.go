package reply

import (
	"bytes"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// speech gathers reasoning and text until they are delivered.
type speech struct {
	dec       *tokenizer.Decoder
	reasoning bool   // what buf holds
	buf       []byte // not delivered yet
	space     []byte // blanks that are text only if text follows
	scratch   []byte
	thought   bool // some reasoning was written
	begun     bool // some text was written
}

// think writes a token of reasoning.
func (s *speech) think(id int32) {
	s.thought = true
	s.buf = s.dec.Append(s.buf, id)
}

// say writes a token of the answer.
func (s *speech) say(id int32) {
	s.scratch = s.dec.Append(s.scratch[:0], id)
	s.trimmed(s.scratch)
}

// trimmed adds b to the answer, less the blanks at its start, and holds back
// those at its end.
func (s *speech) trimmed(b []byte) {
	if !s.begun {
		if b = bytes.TrimLeft(b, blanks); len(b) == 0 {
			return
		}
		s.begun = true
	}
	solid := bytes.TrimRight(b, blanks)
	if len(solid) > 0 {
		s.buf = append(append(s.buf, s.space...), solid...)
		s.space = s.space[:0]
	}
	s.space = append(s.space, b[len(solid):]...)
}

// flush delivers what there is.
func (s *speech) flush(out []Event) []Event {
	if len(s.buf) == 0 {
		return out
	}
	if s.reasoning {
		out = append(out, ReasoningDelta{string(s.buf)})
	} else {
		out = append(out, TextDelta{string(s.buf)})
	}
	s.buf = s.buf[:0]
	return out
}

// pause ends a run of text tokens: a character that is not complete by now never
// will be.
func (s *speech) pause() {
	s.scratch = s.dec.Flush(s.scratch[:0])
	if s.reasoning {
		s.buf = append(s.buf, s.scratch...)
	} else if len(s.scratch) > 0 {
		s.trimmed(s.scratch)
	}
}

// turn changes between reasoning and text.
func (s *speech) turn(out []Event, reasoning bool) []Event {
	if s.reasoning == reasoning {
		return out
	}
	s.pause()
	out = s.flush(out)
	s.reasoning = reasoning
	return out
}
