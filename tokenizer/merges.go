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

// A rankedPair is a merge with its place in the list, which is its rank.
type rankedPair struct {
	pair
	rank uint32
	at   int64 // offset in the file
}

// merges reads the list of merges. Both spellings, "a b" and ["a", "b"], may
// occur.
func (p *parser) merges(t *Tokenizer, field string) error {
	var list []rankedPair
	err := p.array(field, func(i int) error {
		at := int64(p.pos)
		left, right, err := p.merge(field)
		if err != nil {
			return err
		}
		if p.b.dropped[left] || p.b.dropped[right] || p.b.dropped[left+right] {
			return nil // plain text never becomes an added token
		}
		s := left + right
		m := pair{t.whole.find(s, 0, len(left)), t.whole.find(s, len(left), len(s)), t.whole.find(s, 0, len(s))}
		if left == "" || right == "" || m.left < 0 || m.right < 0 || m.id < 0 {
			return p.b.formatError(fmt.Sprintf("%s[%d]", field, i), at,
				"two tokens of the vocabulary that make a third", show(left)+" and "+show(right))
		}
		list = append(list, rankedPair{m, uint32(i), at})
		return nil
	})
	if err != nil {
		return err
	}
	t.pairs = newPairTable(len(list))
	for _, m := range list {
		if !t.pairs.add(m.left, m.right, m.rank, m.id) {
			return p.b.formatError(fmt.Sprintf("%s[%d]", field, m.rank), m.at, "each pair once",
				show(string(t.token(m.left)))+" and "+show(string(t.token(m.right)))+" again")
		}
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
	var m merger
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
