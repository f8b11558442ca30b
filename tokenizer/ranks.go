package tokenizer

import (
	"bytes"
	"encoding/base64"
	"strconv"
)

// ParseRanks reads a rank file as tiktoken writes them: one token per line, its
// bytes in base64, a blank, its rank. The rank is the id and the order of merging
// at once: of two neighbouring pairs, the one whose concatenation has the lower
// rank is merged first. A piece that is a token is that token.
//
// A rank file holds no added tokens; they come in added, with ids that the file
// does not use. For the smallest tokenizer with all control tokens of GLM, give
// it the 256 bytes and [GLMAdded].
func ParseRanks(ranks []byte, added []Added) (*Tokenizer, error) {
	b := &builder{}
	var offset int64
	for len(ranks) > 0 {
		line, rest, _ := bytes.Cut(ranks, []byte("\n"))
		if err := b.rankLine(bytes.TrimSuffix(line, []byte("\r")), offset); err != nil {
			return nil, err
		}
		offset += int64(len(ranks) - len(rest))
		ranks = rest
	}
	for _, a := range added {
		b.added = append(b.added, addedToken{Added: a, offset: -1})
	}
	t, err := b.tokenizer()
	if err != nil {
		return nil, err
	}
	t.pairs = rankPairs(t)
	return t, nil
}

func (b *builder) rankLine(line []byte, offset int64) error {
	if len(line) == 0 {
		return nil
	}
	field := "line " + strconv.Itoa(len(b.tokens)+1)
	text, rank, ok := bytes.Cut(line, []byte(" "))
	id, err := strconv.ParseUint(string(rank), 10, 31)
	if !ok || err != nil {
		return b.formatError(field, offset, "base64, a blank, a rank", show(string(line)))
	}
	from := len(b.blob)
	b.blob, err = base64.StdEncoding.AppendDecode(b.blob, text)
	if err != nil {
		return b.formatError(field, offset, "a token in base64", show(string(text)))
	}
	return b.addToken(field, offset, int64(id), from)
}

// rankPairs lists the merges that a rank file implies: every way to cut a token
// into two tokens is a merge, with the rank of the token.
func rankPairs(t *Tokenizer) pairTable {
	type pair struct{ left, right, id int32 }
	var pairs []pair
	isAdded := map[int32]bool{}
	for _, a := range t.added {
		isAdded[a.ID] = true
	}
	for id := range int32(t.size()) {
		if isAdded[id] {
			continue
		}
		s := string(t.token(id))
		for cut := 1; cut < len(s); cut++ {
			left := t.whole.find(s, 0, cut)
			if left < 0 {
				continue
			}
			if right := t.whole.find(s, cut, len(s)); right >= 0 {
				pairs = append(pairs, pair{left, right, id})
			}
		}
	}
	table := newPairTable(len(pairs))
	for _, p := range pairs {
		table.add(p.left, p.right, uint32(p.id), p.id)
	}
	return table
}
