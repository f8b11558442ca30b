package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// A builder gathers what a file holds, checks it and makes the Tokenizer. The
// readers of the two file formats fill it.
type builder struct {
	file   string
	tokens []rawToken // of the BPE vocabulary, then the added ones
	blob   []byte
	added  []addedToken
}

type rawToken struct {
	id       int32
	from, to uint32 // in blob
	offset   int64  // in the file
}

type addedToken struct {
	Added
	normalized bool  // matched after the tokens that are not
	offset     int64 // in the file
}

func (b *builder) formatError(field string, offset int64, want, have string) error {
	return &FormatError{File: b.file, Field: field, Offset: offset, Want: want, Have: have}
}

// checkID refuses ids that would make the tables huge.
func (b *builder) checkID(field string, offset, id int64) error {
	if id < 0 || id >= maxIDs {
		return b.formatError(field, offset, "an id from 0 to "+strconv.Itoa(maxIDs-1), strconv.FormatInt(id, 10))
	}
	return nil
}

// addToken enters the token whose bytes were appended to blob since from.
func (b *builder) addToken(field string, offset, id int64, from int) error {
	if err := b.checkID(field, offset, id); err != nil {
		return err
	}
	if n := len(b.blob) - from; n == 0 || n > maxTokenBytes {
		return b.formatError(field, offset, fmt.Sprintf("a token of 1 to %d bytes", maxTokenBytes), fmt.Sprintf("%d bytes", n))
	}
	b.tokens = append(b.tokens, rawToken{int32(id), uint32(from), uint32(len(b.blob)), offset})
	return nil
}

// tokenizer makes the id tables and the matchers of added tokens. The merges are
// the caller's.
func (b *builder) tokenizer() (*Tokenizer, error) {
	t := &Tokenizer{ids: map[string]int32{}}
	slices.SortFunc(b.added, func(x, y addedToken) int { return cmp.Compare(x.ID, y.ID) })
	bpe := len(b.tokens)
	for i, a := range b.added {
		field := "added_tokens"
		from := len(b.blob)
		b.blob = append(b.blob, a.Content...)
		if err := b.addToken(field, a.offset, int64(a.ID), from); err != nil {
			return nil, err
		}
		if other, ok := t.ids[a.Content]; ok {
			return nil, b.formatError(field, a.offset, "each text once", fmt.Sprintf("%s with ids %d and %d", show(a.Content), other, a.ID))
		}
		if i > 0 && b.added[i-1].ID == a.ID {
			return nil, b.formatError(field, a.offset, "each id once", fmt.Sprintf("id %d for %s and %s", a.ID, show(b.added[i-1].Content), show(a.Content)))
		}
		t.ids[a.Content] = a.ID
		t.added = append(t.added, a.Added)
	}
	if err := b.layOut(t); err != nil {
		return nil, err
	}
	if err := b.indexTokens(t, b.tokens[:bpe]); err != nil {
		return nil, err
	}
	b.buildMatchers(t)
	return t, nil
}

// layOut sorts the token bytes by id.
func (b *builder) layOut(t *Tokenizer) error {
	slices.SortStableFunc(b.tokens, func(x, y rawToken) int { return cmp.Compare(x.id, y.id) })
	size := 0
	if n := len(b.tokens); n > 0 {
		size = int(b.tokens[n-1].id) + 1
	}
	t.blob = make([]byte, 0, len(b.blob))
	t.off = make([]uint32, 1, size+1)
	for i, tok := range b.tokens {
		if i > 0 && b.tokens[i-1].id == tok.id {
			return b.formatError("vocab", tok.offset, "each id once", fmt.Sprintf("id %d for %s and %s", tok.id,
				show(string(b.blob[b.tokens[i-1].from:b.tokens[i-1].to])), show(string(b.blob[tok.from:tok.to]))))
		}
		for len(t.off) <= int(tok.id) { // holes
			t.off = append(t.off, uint32(len(t.blob)))
		}
		t.blob = append(t.blob, b.blob[tok.from:tok.to]...)
		t.off = append(t.off, uint32(len(t.blob)))
	}
	return nil
}

// indexTokens enters the BPE tokens into the piece table.
func (b *builder) indexTokens(t *Tokenizer, tokens []rawToken) error {
	t.whole = newPieceTable(&t.vocab, len(tokens))
	isAdded := map[int32]bool{}
	for _, a := range t.added {
		isAdded[a.ID] = true
	}
	for i := range t.byteID {
		t.byteID[i] = -1
	}
	for _, tok := range b.tokens {
		if isAdded[tok.id] {
			continue
		}
		s := string(b.blob[tok.from:tok.to])
		if other := t.whole.find(s, 0, len(s)); other >= 0 {
			return b.formatError("vocab", tok.offset, "each token once", fmt.Sprintf("%s with ids %d and %d", show(s), other, tok.id))
		}
		t.whole.add(s, tok.id)
		if len(s) == 1 {
			t.byteID[s[0]] = tok.id
		}
	}
	for c, id := range t.byteID {
		if id < 0 {
			return b.formatError("vocab", -1, "a token for each of the 256 bytes", fmt.Sprintf("none for byte 0x%02x", c))
		}
	}
	return nil
}

// buildMatchers makes one matcher for the added tokens that are matched in the
// text as it came and one for those matched after normalising, as the reference
// does: the second looks only at what the first left over.
func (b *builder) buildMatchers(t *Tokenizer) {
	var raw, normalized *addedMatcher
	for _, a := range b.added {
		m := &raw
		if a.normalized {
			m = &normalized
		}
		if *m == nil {
			*m = newAddedMatcher()
		}
		(*m).add(a.Content, a.ID)
	}
	for _, m := range []*addedMatcher{raw, normalized} {
		if m != nil {
			t.match = append(t.match, m)
		}
	}
}
