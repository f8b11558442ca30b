package reply

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// A mark is what a token means to the parser. Everything that is not one of the
// ids below is text, whatever it spells.
type mark uint8

const (
	text mark = iota
	stop      // ends the message: <|endoftext|>, <|user|>, <|observation|>
	turn      // another role token: bounds the search in the prompt, otherwise text
	thinkOpen
	thinkClose
	callOpen
	callClose
	keyOpen
	keyClose
	valueOpen
	valueClose
)

var markSpelling = [...]string{
	thinkOpen: "<think>", thinkClose: "</think>",
	callOpen: "<tool_call>", callClose: "</tool_call>",
	keyOpen: "<arg_key>", keyClose: "</arg_key>",
	valueOpen: "<arg_value>", valueClose: "</arg_value>",
}

var stopSpelling = [...]string{"<|endoftext|>", "<|user|>", "<|observation|>"}

var turnSpelling = [...]string{"<|system|>", "<|assistant|>"}

// marks maps ids to marks: a table over the narrow range that the control tokens
// of a vocabulary fill.
type marks struct {
	first int32
	table []mark
}

func newMarks(tok *tokenizer.Tokenizer) (marks, error) {
	ids := make(map[int32]mark, 16)
	add := func(content string, m mark) error {
		id, ok := tok.ID(content)
		if !ok {
			return &VocabularyError{Missing: content}
		}
		ids[id] = m
		return nil
	}
	for m, content := range markSpelling {
		if content == "" {
			continue
		}
		if err := add(content, mark(m)); err != nil {
			return marks{}, err
		}
	}
	for _, content := range stopSpelling {
		if err := add(content, stop); err != nil {
			return marks{}, err
		}
	}
	for _, content := range turnSpelling {
		if err := add(content, turn); err != nil {
			return marks{}, err
		}
	}
	low, high := int32(math.MaxInt32), int32(0)
	for id := range ids {
		low, high = min(low, id), max(high, id)
	}
	t := marks{first: low, table: make([]mark, high-low+1)}
	for id, m := range ids {
		t.table[id-low] = m
	}
	return t, nil
}

func (t *marks) of(id int32) mark {
	if i := uint(id) - uint(t.first); id >= t.first && i < uint(len(t.table)) {
		return t.table[i]
	}
	return text
}

// openThought reports whether a prompt leaves a <think> open, so that the answer
// starts inside the reasoning. Only the last turn counts: what earlier turns
// opened or closed says nothing about this one.
func (t *marks) openThought(prompt []int32) bool {
	for i := len(prompt) - 1; i >= 0; i-- {
		switch t.of(prompt[i]) {
		case thinkOpen:
			return true
		case thinkClose, turn, stop:
			return false
		}
	}
	return false
}
