package tokenizer

import (
	"cmp"
	"slices"
)

// A Tokenizer is one vocabulary. It never changes and may be used by any number
// of goroutines at once. Make one with [Load], [Parse] or [ParseRanks].
type Tokenizer struct {
	vocab
	byteID [256]int32 // token of each single byte
	whole  pieceTable // pieces that are a token as they stand
	pairs  *pairTable // merges
	added  []Added    // by id
	ids    map[string]int32
	match  []*addedMatcher
}

// Encode appends the ids of text to dst and returns the extended slice.
//
// The text is taken as mere text: whatever it holds, no added token comes out of
// it. A user who types <|user|> gets the tokens of "<", "|", "user" and so on,
// never the control token. Text may be any bytes; those that are not UTF-8 are
// encoded as they stand, so that [Tokenizer.Raw] gives text back exactly.
//
// Apart from growing dst it does not allocate, unless the text holds a piece of
// more than 64 KiB.
func (t *Tokenizer) Encode(dst []int32, text string) []int32 {
	var m *merger
	for p := 0; p < len(text); {
		q := pieceEnd(text, p)
		if id := t.whole.find(text, p, q); id >= 0 {
			dst = append(dst, id)
		} else {
			if m == nil {
				m = mergers.Get().(*merger)
			}
			dst = t.merge(dst, m, text[p:q])
		}
		p = q
	}
	if m != nil {
		m.release()
	}
	return dst
}

// EncodeWithAdded is Encode for text that is trusted to hold control tokens: the
// text of an added token becomes that token wherever it stands, the leftmost
// first and the longest of those that start together, as in the reference. Text
// from users, tools or files must not come here.
func (t *Tokenizer) EncodeWithAdded(dst []int32, text string) []int32 {
	return t.encodeMatched(dst, text, t.match)
}

func (t *Tokenizer) encodeMatched(dst []int32, text string, match []*addedMatcher) []int32 {
	if len(match) == 0 {
		return t.Encode(dst, text)
	}
	for p := 0; p < len(text); {
		start, end, id := match[0].find(text, p)
		dst = t.encodeMatched(dst, text[p:start], match[1:])
		if id >= 0 {
			dst = append(dst, id)
		}
		p = end
	}
	return dst
}

// ID returns the id of the added token with this text.
func (t *Tokenizer) ID(added string) (id int32, ok bool) {
	id, ok = t.ids[added]
	return id, ok
}

// addedText returns the text of the added token with this id.
func (t *Tokenizer) addedText(id int32) (string, bool) {
	i, ok := slices.BinarySearchFunc(t.added, id, func(a Added, id int32) int { return cmp.Compare(a.ID, id) })
	if !ok {
		return "", false
	}
	return t.added[i].Content, true
}

// Added returns the added tokens in id order.
func (t *Tokenizer) Added() []Added { return slices.Clone(t.added) }

// Size returns the highest id plus one. Not every id below it need have a token.
func (t *Tokenizer) Size() int { return t.size() }

// Bytes returns the bytes of a token, for added tokens their text; nil if there
// is no token with this id. The slice is part of the vocabulary: it must not be
// written to.
func (t *Tokenizer) Bytes(id int32) []byte {
	if uint(id) >= uint(t.size()) || t.off[id] == t.off[id+1] {
		return nil
	}
	return t.token(id)
}

// Raw appends the bytes of the tokens to dst: the inverse of Encode, for any
// text. The bytes need not be UTF-8; for text to show, use a [Decoder] or
// [Tokenizer.Decode].
func (t *Tokenizer) Raw(dst []byte, ids ...int32) []byte {
	for _, id := range ids {
		dst = append(dst, t.Bytes(id)...)
	}
	return dst
}

// Decode returns the text of ids, with U+FFFD where their bytes are not UTF-8.
func (t *Tokenizer) Decode(ids []int32) string {
	d := Decoder{t: t}
	var text []byte
	for _, id := range ids {
		text = d.Append(text, id)
	}
	return string(d.Flush(text))
}
