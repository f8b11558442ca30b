package tokenizer

import (
	"fmt"
	"strings"
)

// tokenizer makes the Tokenizer out of the sections that were read.
func (p *parser) tokenizer() (*Tokenizer, error) {
	t, err := p.b.build()
	if err != nil {
		return nil, err
	}
	if p.mergesAt == 0 {
		return nil, p.b.formatError("model.merges", -1, "an array", "none")
	}
	p.pos = p.mergesAt
	if err := p.merges(t, "model.merges"); err != nil {
		return nil, err
	}
	if !p.model.IgnoreMerges {
		t.keepReachable()
	}
	return t, nil
}

// merges reads the list of merges. The rank of a merge is its place there. Both
// spellings, "a b" and ["a", "b"], may occur.
func (p *parser) merges(t *Tokenizer, field string) error {
	var rules []mergeRule
	var offsets []int64
	at := func(i int) string { return fmt.Sprintf("%s[%d]", field, i) }
	err := p.array(field, func(i int) error {
		offset := int64(p.pos)
		if i == maxRanks {
			return p.b.formatError(field, offset, fmt.Sprintf("at most %d merges", maxRanks), "more")
		}
		left, right, err := p.merge(field)
		if err != nil {
			return err
		}
		if p.b.dropped[left] || p.b.dropped[right] || p.b.dropped[left+right] {
			return nil // plain text never becomes an added token
		}
		s, cut := left+right, len(left)
		if left == "" || right == "" {
			return p.b.formatError(at(i), offset, "two tokens", show(left)+" and "+show(right))
		}
		r := mergeRule{t.whole.find(s, 0, cut), t.whole.find(s, cut, len(s)), t.whole.find(s, 0, len(s)), uint32(i)}
		if r.left < 0 || r.right < 0 || r.id < 0 {
			return p.b.formatError(at(i), offset, "two tokens of the vocabulary that make a third", show(left)+" and "+show(right))
		}
		rules = append(rules, r)
		offsets = append(offsets, offset)
		return nil
	})
	if err != nil {
		return err
	}
	var double int
	if t.pairs, double = newPairTable(rules, &t.byteID); double >= 0 {
		r := rules[double]
		return p.b.formatError(at(int(r.rank)), offsets[double], "each pair once",
			show(string(t.token(r.left)))+" and "+show(string(t.token(r.right)))+" again")
	}
	return nil
}

// merge reads one merge and returns the bytes of its two tokens.
func (p *parser) merge(field string) (left, right string, err error) {
	var parts []string
	at := p.pos
	if p.peek() == '[' {
		err = p.array(field, func(int) error {
			var err error
			p.scratch, err = p.text(p.scratch[:0], field)
			parts = append(parts, string(p.scratch))
			return err
		})
	} else {
		p.scratch, err = p.text(p.scratch[:0], field)
		parts = strings.Split(string(p.scratch), " ")
	}
	if err != nil {
		return "", "", err
	}
	if len(parts) != 2 {
		return "", "", p.errorAt(at, field, `a merge, "a b" or ["a", "b"]`)
	}
	for i, part := range parts {
		if b, ok := appendByteLevel(nil, part); ok {
			parts[i] = string(b)
		} else if !p.b.dropped[part] {
			return "", "", p.errorAt(at, field, "tokens in the byte-level alphabet")
		}
	}
	return parts[0], parts[1], nil
}

// keepReachable leaves in the piece table only the tokens that merging their own
// bytes leads to. Looking a piece up there first then never changes the result;
// it only saves the merging.
func (t *Tokenizer) keepReachable() {
	m := merger{limit: maxPiece}
	var ids []int32
	kept := newPieceTable(&t.vocab, t.size())
	for _, e := range t.whole.entries {
		if e.n == 0 {
			continue
		}
		token := string(t.token(e.id))
		if ids = t.merge(ids[:0], &m, token); len(ids) == 1 && ids[0] == e.id {
			kept.add(token, e.id)
		}
	}
	t.whole = kept
}
