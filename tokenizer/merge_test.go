package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

// mergeByDefinition is byte-pair encoding as it is defined, one whole pass per
// merge.
func mergeByDefinition(t *Tokenizer, piece string) (ids []int32) {
	for i := range len(piece) {
		ids = append(ids, t.byteID[piece[i]])
	}
	for {
		best, at := uint32(noRank), -1
		for i := range len(ids) - 1 {
			if r := t.pairs.rank(ids[i], ids[i+1]); r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, t.pairs.merged[best])
	}
}

func TestMergeShortAndLong(t *testing.T) {
	for name, tok := range map[string]*Tokenizer{"cl100k": loadCL100K(t), "rules": loadRules(t)} {
		m := mergers.New().(*merger)
		check := func(piece string) {
			t.Helper()
			want := mergeByDefinition(tok, piece)
			if got := tok.mergeLong(nil, m, piece); !slices.Equal(got, want) {
				t.Errorf("%s, long, %q:\n got %v\nwant %v", name, piece, got, want)
			}
			if len(piece) > shortPiece {
				return
			}
			if got := tok.mergeShort(nil, m, piece); !slices.Equal(got, want) {
				t.Errorf("%s, short, %q:\n got %v\nwant %v", name, piece, got, want)
			}
		}
		for _, kind := range corpus.Kinds {
			for _, piece := range split(corpus.Text(kind, 9, 4_000)) {
				check(piece[:min(len(piece), 400)])
			}
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 2_000 { // dense in overlapping merges
			piece := make([]byte, 1+rng.IntN(60))
			for i := range piece {
				piece[i] = "aaab"[rng.IntN(4)]
			}
			check(string(piece))
		}
	}
}

// loadRules returns a tokenizer whose merge list no training would produce: ranks
// fall as tokens grow, and one token has two rules.
func loadRules(t testing.TB) *Tokenizer {
	t.Helper()
	f := newFile()
	for _, token := range []string{"aa", "ab", "ba", "aaa", "aaaa", "aab", "aba", "abab"} {
		f.token(token)
	}
	f.merges("ab ab", "aa aa", "a aa", "aa b", "aa a", "a ba", "ab a", "b a", "a b", "a a")
	tok, err := Parse(f.json())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// The same odd rules in Hugging Face tokenizers 0.23.3.
func TestOddRulesAgainstReference(t *testing.T) {
	tok := loadRules(t)
	for text, want := range map[string][]int32{
		"aaaabbbbaababbabaaaaaaaababaabbaaaabaaba": {259, 257, 98, 98, 258, 262, 98, 258, 258, 259, 259, 262, 258, 257, 258, 256, 262, 262},
		"aaaabaaabbababbaaaabaabababaabaaaaaabaab": {259, 262, 97, 257, 258, 258, 98, 258, 256, 262, 262, 258, 258, 262, 259, 97, 262, 257},
		"aabaababaabbabaaabaaaaaaaaaabaaaaaaaaaaa": {97, 262, 262, 258, 257, 258, 258, 97, 262, 259, 259, 256, 262, 259, 259, 259, 97},
		"aaaababbaaababaaaaabaaabaaabbabaababaaaa": {259, 262, 98, 258, 97, 262, 258, 259, 262, 97, 262, 97, 257, 258, 258, 262, 258, 259},
		"aaaaaaabaaaaabaabaaaababababaabaaaaaaaba": {259, 259, 262, 259, 262, 262, 256, 262, 258, 258, 258, 262, 259, 256, 262},
	} {
		if got := tok.Encode(nil, text); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", text, got, want)
		}
	}
}

// A quadratic merge of a megabyte takes hours; this one takes a fraction of a
// second.
func TestLongPiecesAreNotQuadratic(t *testing.T) {
	tok := loadCL100K(t)
	for _, unit := range []string{" ", "a", "ab", "世", "\xFF", "\u0301", "=-"} {
		start := time.Now()
		text := strings.Repeat(unit, 1<<20/len(unit))
		ids := tok.Encode(nil, text)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("1 MiB of %q took %v", unit, took)
		}
		if string(tok.Raw(nil, ids...)) != text {
			t.Errorf("1 MiB of %q does not survive", unit)
		}
	}
}

func TestMergeCutsAtLimit(t *testing.T) {
	tok := loadCL100K(t)
	piece := strings.Repeat("abcdefg", 700)
	m := &merger{limit: 1000}
	var want []int32
	for part := range slices.Chunk([]byte(piece), 1000) {
		want = append(want, mergeByDefinition(tok, string(part))...)
	}
	if got := tok.merge(nil, m, piece); !slices.Equal(got, want) {
		t.Errorf("got %d tokens, want %d", len(got), len(want))
	}
}

func TestMergersReturnMemory(t *testing.T) {
	m := mergers.New().(*merger)
	m.nodes, m.heap = make([]node, keepNodes+1), make([]uint64, keepNodes+1)
	m.release()
	if m.nodes != nil || m.heap != nil {
		t.Error("an idle merger keeps the memory of a huge piece")
	}
}
