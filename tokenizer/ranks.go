package tokenizer

import (
	"bytes"
	"encoding/base64"
	"fmt"
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
	b := &builder{vocabField: "ranks"}
	if err := b.checkFileSize(len(ranks)); err != nil {
		return nil, err
	}
	var offset int64
	for n := 1; len(ranks) > 0; n++ {
		line, rest, _ := bytes.Cut(ranks, []byte("\n"))
		if err := b.rankLine(bytes.TrimSuffix(line, []byte("\r")), n, offset); err != nil {
			return nil, err
		}
		offset += int64(len(ranks) - len(rest))
		ranks = rest
	}
	for i, a := range added {
		b.added = append(b.added, addedToken{Added: a, field: fmt.Sprintf("added[%d]", i), offset: -1})
	}
	t, err := b.build()
	if err != nil {
		return nil, err
	}
	rules := rankRules(t)
	if len(rules) > maxRanks {
		return nil, b.formatError("ranks", -1, fmt.Sprintf("tokens with at most %d ways to cut them in two", maxRanks), "more")
	}
	t.pairs, _ = newPairTable(rules, &t.byteID) // a pair has one concatenation, so one rule
	return t, nil
}

// rankLine enters line n of the file, which begins at offset.
func (b *builder) rankLine(line []byte, n int, offset int64) error {
	if len(line) == 0 {
		return nil
	}
	field := fmt.Sprintf("line %d", n)
	text, rank, ok := bytes.Cut(line, []byte(" "))
	id, err := strconv.ParseInt(string(rank), 10, 64)
	if !ok || err != nil {
		return b.formatError(field, offset, "base64, a blank, a rank", show(string(line)))
	}
	from := len(b.blob)
	b.blob, err = base64.StdEncoding.AppendDecode(b.blob, text)
	if err != nil {
		return b.formatError(field, offset, "a token in base64", show(string(text)))
	}
	return b.addToken(field, offset, id, from)
}

// rankRules lists the merges that a rank file implies: every way to cut a token
// into two tokens is one, with the rank of the token. It stops when there are
// more than maxRanks.
func rankRules(t *Tokenizer) []mergeRule {
	var rules []mergeRule
	for id := int32(0); int(id) < t.size() && len(rules) <= maxRanks; id++ {
		s := string(t.token(id))
		if s == "" || t.whole.find(s, 0, len(s)) != id {
			continue // a hole or an added token
		}
		for cut := 1; cut < len(s); cut++ {
			left := t.whole.find(s, 0, cut)
			if left < 0 {
				continue
			}
			if right := t.whole.find(s, cut, len(s)); right >= 0 {
				rules = append(rules, mergeRule{left, right, id, uint32(id)})
			}
		}
	}
	return rules
}
