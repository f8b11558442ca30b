package tokenizer

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

func split(s string) (pieces []string) {
	for len(s) > 0 {
		n := pieceEnd(s, 0)
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

func TestSplit(t *testing.T) {
	for _, test := range []struct{ text, want string }{ // pieces are parted by |
		{"Hello, world!", "Hello|,| world|!"},
		{"don't they'll we've I'm you're he'd it's", "don|'t| they|'ll| we|'ve| I|'m| you|'re| he|'d| it|'s"},
		{"DON'T THEY'LL WE'VE I'M YOU'RE HE'D IT'S", "DON|'T| THEY|'LL| WE|'VE| I|'M| YOU|'RE| HE|'D| IT|'S"},
		{"it'\u017F x", "it|'\u017F| x"}, // the long s folds to s
		{"it'\u0161", "it|'\u0161"},      // another letter of the same first byte does not
		{"'sun'tis'llama", "'s|un|'t|is|'ll|ama"},
		{" 'tis", " '|tis"},
		{"'rx 'lx 'v 'r", "'rx| '|lx| '|v| '|r"},
		{"1234567890", "123|456|789|0"},
		{"x12 345", "x|12| |345"},
		{"١٢٣٤½Ⅷ", "١٢٣|٤½Ⅷ"},
		{"a  b", "a| | b"},
		{"a   1", "a|  | |1"},
		{"a  ", "a|  "},
		{"a \t b", "a| \t| b"},
		{"a\tb", "a|\tb"},
		{"a\u00A0b\u3000世", "a|\u00A0b|\u3000世"},
		{"\u00A0!", "\u00A0|!"}, // only a space goes with marks
		{" !", " !"},
		{"!\r\n\r\nx", "!\r\n\r\n|x"},
		{"  \n \n  x", "  \n \n| | x"},
		{"\n\n  ", "\n\n|  "},
		{" \r x", " \r| x"},
		{"\v\n\f", "\v\n|\f"},
		{"(foo)", "(foo|)"},
		{"((foo", "((|foo"},
		{"\nfoo", "\n|foo"},
		{"e\u0301a", "e|\u0301a"}, // a combining mark is a mark
		{"\u200Bx\uFEFF", "\u200Bx|\uFEFF"},
		{"你好，世界", "你好|，世界"},
		{"🎉🎉 x", "🎉🎉| x"},
		{"a\xFFb\x80\x80c", "a|\xFFb|\x80\x80|c"},
		{" \xE4\xBD", " \xE4\xBD"},
	} {
		if got := strings.Join(split(test.text), "|"); got != test.want {
			t.Errorf("%q:\n got %q\nwant %q", test.text, got, test.want)
		}
	}
}

// Package regexp has no lookahead and an ASCII \s, but it can match one
// alternative at a time, and (?!\S) is easily done by hand.
var (
	space        = `\t\n\v\f\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}`
	alternatives = func() (list []*regexp.Regexp) {
		for _, alternative := range []string{
			`(?i:'s|'t|'re|'ve|'m|'ll|'d)`,
			`[^\r\n\p{L}\p{N}]?\p{L}+`,
			`\p{N}{1,3}`,
			` ?[^` + space + `\p{L}\p{N}]+[\r\n]*`,
			`[` + space + `]*[\r\n]+`,
			`[` + space + `]+`,
		} {
			list = append(list, regexp.MustCompile(`^(?:`+alternative+`)`))
		}
		return list
	}()
	oneBlank = regexp.MustCompile(`[` + space + `]$`)
)

func splitByRegexp(s string) (pieces []string) {
	for len(s) > 0 {
		n := 0
		for i, re := range alternatives {
			m := re.FindStringIndex(s)
			if m == nil {
				continue
			}
			n = m[1]
			if i == len(alternatives)-1 && n < len(s) { // \s+(?!\S), else \s+
				if shorter := n - len(oneBlank.FindString(s[:n])); shorter > 0 {
					n = shorter
				}
			}
			break
		}
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

func TestSplitAgainstRegexp(t *testing.T) {
	for _, kind := range corpus.Kinds {
		text := asRegexpSeesIt(corpus.Text(kind, 5, 50_000))
		compareSplits(t, text)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("it'S  a \r\n\n1234 \u3000x\u0301y 'ſ")
	f.Fuzz(func(t *testing.T, text string) {
		compareSplits(t, asRegexpSeesIt(text))
	})
}

func compareSplits(t *testing.T, text string) {
	t.Helper()
	got, want := split(text), splitByRegexp(text)
	if slices.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("piece %d is %q, by package regexp %q", i, got[i], want[i])
		}
	}
	t.Fatalf("%d pieces, by package regexp %d", len(got), len(want))
}

// asRegexpSeesIt removes what package regexp knows nothing of: bytes that are not
// UTF-8 and characters newer than its Unicode version.
func asRegexpSeesIt(text string) string {
	return strings.Map(func(r rune) rune {
		class, _ := classAt(string(r), 0)
		if r == utf8.RuneError || class != goClass(r) {
			return '?'
		}
		return r
	}, text)
}
