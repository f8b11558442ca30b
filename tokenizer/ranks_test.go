package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseRanks(t *testing.T) {
	ranks := string(byteRanks())
	// ab, abc and bc; line ends of Windows and an empty line.
	tok, err := ParseRanks([]byte(ranks+"\r\nYWI= 256\r\nYWJj 258\r\nYmM= 257"), []Added{{ID: 400, Content: "<x>"}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"abc":      {258},
		"abcabc":   {258, 258}, // ab first, as 256 is lower than 257
		"bcabc":    {257, 258},
		"<x>":      {'<', 'x', '>'},
		"\xFF\x00": {0xFF, 0},
	} {
		if got := tok.Encode(nil, text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if got := tok.EncodeWithAdded(nil, "a<x>"); !slices.Equal(got, []int32{'a', 400}) {
		t.Errorf("with added tokens: %v", got)
	}
}

func TestParseRanksFindsMistakes(t *testing.T) {
	ranks := string(byteRanks())
	size := int64(len(ranks))
	for _, test := range []struct {
		name, ranks string
		added       []Added
		field       string
		offset      int64
	}{
		{"no blank", ranks + "YWI=", nil, "line 257", size},
		{"no rank", ranks + "YWI= ", nil, "line 257", size},
		{"rank a word", ranks + "YWI= x", nil, "line 257", size},
		{"two blanks", ranks + "YWI=  7", nil, "line 257", size},
		{"not base64", ranks + "YWI 256", nil, "line 257", size},
		{"empty token", ranks + " 256", nil, "line 257", size},
		{"rank negative", ranks + "YWI= -1", nil, "line 257", size},
		{"rank huge", ranks + "YWI= 2097152", nil, "line 257", size},
		{"rank twice", ranks + "YWI= 65", nil, "ranks", size},
		{"token twice", ranks + "QQ== 256", nil, "ranks", size},
		{"byte missing", strings.Replace(ranks, "QQ== 65\n", "", 1), nil, "ranks", -1},
		{"nothing", "", nil, "ranks", -1},
		{"added id taken", ranks, []Added{{ID: 65, Content: "<x>"}}, "ranks", 9 * 65},
		{"added empty", ranks, []Added{{ID: 256}}, "added[0]", -1},
		{"added twice", ranks, []Added{{ID: 257, Content: "<x>"}, {ID: 256, Content: "<x>"}}, "added[0]", -1},
		{"added id huge", ranks, []Added{{ID: 1 << 30, Content: "<x>"}}, "added[0]", -1},
	} {
		_, err := ParseRanks([]byte(test.ranks), test.added)
		var e *FormatError
		if !errors.As(err, &e) || e.Field != test.field || test.name != "added id taken" && e.Offset != test.offset {
			t.Errorf("%s: got %v, want it blamed on %s at byte %d", test.name, err, test.field, test.offset)
		}
	}
}

// An added token that the rank file lists too is an added token only.
func TestParseRanksAddedInVocabulary(t *testing.T) {
	tok, err := ParseRanks([]byte(string(byteRanks())+"YWI= 256\nYWJj 257\n"), []Added{{ID: 257, Content: "abc"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode(nil, "abc"); !slices.Equal(got, []int32{256, 'c'}) {
		t.Errorf("got %v", got)
	}
}
