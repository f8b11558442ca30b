package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Limits of what a file may ask for. Published vocabularies stay far below: o200k
// has 200,000 tokens of at most 128 bytes, in a file of 28 MB.
const (
	maxFileBytes  = 1 << 26
	maxIDs        = 1 << idBits // ids, holes counted
	maxTokenBytes = 1 << 10     // bytes of one token
)

// A builder gathers what a file holds, checks it and lays out the Tokenizer. The
// readers of the two file formats fill it and add the merges.
type builder struct {
	file       string
	vocabField string     // where the file keeps its tokens
	byteLevel  bool       // they are written in the byte-level alphabet
	tokens     []rawToken // of the BPE vocabulary
	blob       []byte     // their bytes
	added      []addedToken
	dropped    map[string]bool // added tokens that the vocabulary lists too
}

type rawToken struct {
	id       int32
	from, to uint32 // in blob
	offset   int64  // in the file
	plain    bool   // not in the byte-level alphabet: the text of an added token
}

type addedToken struct {
	Added
	normalized bool // matched after those that are not
	field      string
	offset     int64 // in the file
}

func (b *builder) formatError(field string, offset int64, want, have string) error {
	return &FormatError{File: b.file, Field: field, Offset: offset, Want: want, Have: have}
}

func (b *builder) checkFileSize(n int) error {
	if n > maxFileBytes {
		return b.formatError("file", -1, fmt.Sprintf("at most %d bytes", maxFileBytes), strconv.Itoa(n)+" or more")
	}
	return nil
}

// checkID refuses ids that would make the tables huge.
func (b *builder) checkID(field string, offset, id int64) error {
	if id < 0 || id >= maxIDs {
		return b.formatError(field, offset, "an id from 0 to "+strconv.Itoa(maxIDs-1), strconv.FormatInt(id, 10))
	}
	return nil
}

// addToken enters the token whose bytes were appended to blob after from.
func (b *builder) addToken(field string, offset, id int64, from int) error {
	if n := len(b.blob) - from; n == 0 || n > maxTokenBytes {
		return b.formatError(field, offset, fmt.Sprintf("a token of 1 to %d bytes", maxTokenBytes), fmt.Sprintf("%d bytes", n))
	}
	b.tokens = append(b.tokens, rawToken{id: int32(id), from: uint32(from), to: uint32(len(b.blob)), offset: offset})
	return b.checkID(field, offset, id)
}

// addKey enters a token that is written in the byte-level alphabet.
func (b *builder) addKey(key string, id, offset int64) error {
	from := len(b.blob)
	var ok bool
	if b.blob, ok = appendByteLevel(b.blob, key); !ok {
		b.blob = append(b.blob[:from], key...)
	}
	err := b.addToken(b.vocabField, offset, id, from)
	if err == nil {
		b.tokens[len(b.tokens)-1].plain = !ok
	}
	return err
}

func (b *builder) bytes(t rawToken) string { return string(b.blob[t.from:t.to]) }

// build makes the Tokenizer, complete but for its merges.
func (b *builder) build() (*Tokenizer, error) {
	t := &Tokenizer{ids: map[string]int32{}}
	if err := b.enterAdded(t); err != nil {
		return nil, err
	}
	if err := b.dropAdded(t); err != nil {
		return nil, err
	}
	b.layOut(t)
	if err := b.index(t); err != nil {
		return nil, err
	}
	b.buildMatchers(t)
	return t, nil
}

// enterAdded checks the added tokens and puts them in id order.
func (b *builder) enterAdded(t *Tokenizer) error {
	slices.SortStableFunc(b.added, func(x, y addedToken) int { return cmp.Compare(x.ID, y.ID) })
	for i, a := range b.added {
		if err := b.checkID(a.field, a.offset, int64(a.ID)); err != nil {
			return err
		}
		if n := len(a.Content); n == 0 || n > maxTokenBytes {
			return b.formatError(a.field, a.offset, fmt.Sprintf("a text of 1 to %d bytes", maxTokenBytes), fmt.Sprintf("%d bytes", n))
		}
		if i > 0 && b.added[i-1].ID == a.ID {
			return b.formatError(a.field, a.offset, "each id once",
				fmt.Sprintf("id %d for %s and %s", a.ID, show(b.added[i-1].Content), show(a.Content)))
		}
		if other, ok := t.ids[a.Content]; ok {
			return b.formatError(a.field, a.offset, "each text once",
				fmt.Sprintf("%s with ids %d and %d", show(a.Content), other, a.ID))
		}
		t.ids[a.Content] = a.ID
		t.added = append(t.added, a.Added)
	}
	return nil
}

// dropAdded sorts the vocabulary by id and takes the added tokens out of it:
// some files list them there too. What is left can come from plain text.
func (b *builder) dropAdded(t *Tokenizer) error {
	slices.SortStableFunc(b.tokens, func(x, y rawToken) int { return cmp.Compare(x.id, y.id) })
	kept := b.tokens[:0]
	last := int32(-1)
	for _, tok := range b.tokens {
		if tok.id == last {
			return b.formatError(b.vocabField, tok.offset, "each id once", fmt.Sprintf("id %d again for %s", tok.id, show(b.bytes(tok))))
		}
		last = tok.id
		if content, ok := t.addedText(tok.id); ok {
			if b.byteLevel && !tok.plain {
				content = byteLevelBytes(content)
			}
			if b.bytes(tok) != content {
				return b.formatError(b.vocabField, tok.offset, "each id once",
					fmt.Sprintf("id %d for %s and for an added token", tok.id, show(b.bytes(tok))))
			}
			if b.dropped == nil {
				b.dropped = map[string]bool{}
			}
			b.dropped[b.bytes(tok)] = true
			continue
		}
		if tok.plain {
			return b.formatError(b.vocabField, tok.offset, "a token in the byte-level alphabet", show(b.bytes(tok)))
		}
		kept = append(kept, tok)
	}
	b.tokens = kept
	return nil
}

// layOut puts the bytes of all tokens in id order.
func (b *builder) layOut(t *Tokenizer) {
	size := 0
	if n := len(b.tokens); n > 0 {
		size = int(b.tokens[n-1].id) + 1
	}
	if n := len(t.added); n > 0 {
		size = max(size, int(t.added[n-1].ID)+1)
	}
	t.off = make([]uint32, size+1)
	t.text = make([]uint64, (size+63)/64)
	t.blob = make([]byte, 0, len(b.blob))
	tokens, added := b.tokens, t.added
	for id := range int32(size) {
		switch {
		case len(tokens) > 0 && tokens[0].id == id:
			t.blob = append(t.blob, b.blob[tokens[0].from:tokens[0].to]...)
			tokens = tokens[1:]
		case len(added) > 0 && added[0].ID == id:
			t.blob = append(t.blob, added[0].Content...)
			added = added[1:]
		}
		t.off[id+1] = uint32(len(t.blob))
		if token := t.token(id); len(token) > 0 && utf8.Valid(token) {
			t.text[id>>6] |= 1 << (id & 63)
		}
	}
}

// index enters the vocabulary into the piece table and the byte table.
func (b *builder) index(t *Tokenizer) error {
	t.whole = newPieceTable(&t.vocab, len(b.tokens))
	for i := range t.byteID {
		t.byteID[i] = -1
	}
	for _, tok := range b.tokens {
		s := b.bytes(tok)
		if other := t.whole.find(s, 0, len(s)); other >= 0 {
			return b.formatError(b.vocabField, tok.offset, "each token once", fmt.Sprintf("%s with ids %d and %d", show(s), other, tok.id))
		}
		t.whole.add(s, tok.id)
		if len(s) == 1 {
			t.byteID[s[0]] = tok.id
		}
	}
	for _, a := range b.added {
		// The vocabulary's id would win in the reference, against the file's word.
		key := byteLevelBytes(a.Content)
		if id := t.whole.find(key, 0, len(key)); b.byteLevel && id >= 0 {
			return b.formatError(a.field, a.offset, "each text once", fmt.Sprintf("%s with ids %d and %d", show(a.Content), id, a.ID))
		}
	}
	for c, id := range t.byteID {
		if id < 0 {
			return b.formatError(b.vocabField, -1, "a token for each of the 256 bytes", fmt.Sprintf("none for 0x%02x", c))
		}
	}
	return nil
}

// buildMatchers makes one matcher for the added tokens that are matched in the
// text as it came and one for those matched after normalising. Nothing is ever
// normalised, but the order remains: the second looks at what the first left.
func (b *builder) buildMatchers(t *Tokenizer) {
	for _, normalized := range []bool{false, true} {
		var tokens []Added
		for _, a := range b.added {
			if a.normalized == normalized {
				tokens = append(tokens, a.Added)
			}
		}
		if len(tokens) > 0 {
			t.match = append(t.match, newAddedMatcher(tokens))
		}
	}
}
