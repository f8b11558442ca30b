package tokenizer

import (
	"slices"
	"testing"
)

func TestGLMAdded(t *testing.T) {
	const first = 154_820 // GLM-5
	list := GLMAdded(first)
	if len(list) != 36 {
		t.Fatalf("%d tokens, want 36", len(list))
	}
	for id, want := range map[int32]string{ // known ids of GLM-5
		154820: "<|endoftext|>", 154827: "<|user|>", 154829: "<|observation|>", 154841: "<think>", 154855: "<|video|>",
	} {
		if got := list[id-first]; got.ID != id || got.Content != want {
			t.Errorf("%d is %+v, want %s", id, got, want)
		}
	}
	special := 0
	for _, a := range list {
		if a.Special {
			special++
		}
	}
	if special != 22 || list[21].Special || !list[31].Special {
		t.Errorf("%d special tokens, want 22: offsets 0 to 20 and /nothink", special)
	}
}

func TestEncodeWithAdded(t *testing.T) {
	f := newFile()
	normalized := added(300, "<b")
	normalized["normalized"] = true
	f.added(added(256, "<a>"), added(257, "<a><b>"), added(258, "<a"), added(259, "b>"), normalized)
	tok, err := Parse(f.json())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"":          nil,
		"<a>":       {256},
		"<a><b>":    {257},
		"<a><b":     {256, 300},
		"<a<a>":     {258, 256},
		"<<a>>":     {'<', 256, '>'},
		"<b>":       {'<', 259}, // b> is looked for first, for <b is normalized
		"<b<b":      {300, 300},
		"x<a> <a>y": {'x', 256, ' ', 256, 'y'},
	} {
		if got := tok.EncodeWithAdded(nil, text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		for _, id := range tok.Encode(nil, text) {
			if id >= 256 {
				t.Errorf("%q: Encode gave the added token %d", text, id)
			}
		}
	}
}

// Text around an added token is split on its own: the blanks before it end their
// text.
func TestEncodeWithAddedSplits(t *testing.T) {
	tok := loadCL100K(t)
	user, _ := tok.ID("<|user|>")
	want := slices.Concat(tok.Encode(nil, "a  "), []int32{user}, tok.Encode(nil, " b"))
	if got := tok.EncodeWithAdded(nil, "a  <|user|> b"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
