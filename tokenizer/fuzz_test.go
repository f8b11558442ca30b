package tokenizer

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

func addCorpus(f *testing.F) {
	for _, kind := range corpus.Kinds {
		f.Add(corpus.Text(kind, 13, 300))
	}
}

// Whatever the text: its ids stand for exactly its bytes, and none is an added
// token unless the text was trusted.
func FuzzRoundTrip(f *testing.F) {
	addCorpus(f)
	tok := loadCL100K(f)
	first := tok.Added()[0].ID
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode([]int32{-7}, text)
		if ids[0] != -7 {
			t.Fatal("Encode did not append")
		}
		ids = ids[1:]
		for _, id := range ids {
			if id < 0 || id >= first {
				t.Fatalf("Encode gave id %d", id)
			}
		}
		if got := string(tok.Raw(nil, ids...)); got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
		if got := tok.Decode(ids); got != replaceByDefinition(text) {
			t.Fatalf("%q was decoded to %q", text, got)
		}
		trusted := tok.EncodeWithAdded(nil, text)
		if got := string(tok.Raw(nil, trusted...)); got != text {
			t.Fatalf("trusted, %q came back as %q", text, got)
		}
	})
}

// Whatever the ids and wherever a stream of them is read: the pieces of text are
// valid and make up the text of the whole.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("\x00\xE4\x00\xBD\x00\xA0\x12\x34"))
	tok := loadCL100K(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var ids []int32
		for pair := range slices.Chunk(data, 2) {
			id := int32(pair[0]) << 8
			if len(pair) == 2 {
				id |= int32(pair[1])
			}
			if id < 1<<15 {
				id %= 256 // single bytes, mostly
			}
			ids = append(ids, id*2)
		}
		want := replaceByDefinition(string(tok.Raw(nil, ids...)))
		d := tok.NewDecoder()
		var got []byte
		for _, id := range ids {
			n := len(got)
			if got = d.Append(got, id); !utf8.Valid(got[n:]) {
				t.Fatalf("Append gave %q", got[n:])
			}
		}
		if got = d.Flush(got); string(got) != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// Whatever the file: an error or a tokenizer that works, and never more memory
// than the file justifies (the fuzzer's workers die otherwise).
func FuzzParse(f *testing.F) {
	small := newFile()
	small.token("ab")
	small.merges("a b", []string{"ab", "c"})
	small.added(added(257, "<x>"))
	f.Add(small.json())
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if tok, err := Parse(data); err == nil {
			checkUsable(t, tok)
		}
	})
}

func FuzzParseRanks(f *testing.F) {
	base := byteRanks()
	f.Add([]byte("YWI= 256\nYWJi 257\n"), "<x>", int32(300))
	f.Fuzz(func(t *testing.T, ranks []byte, content string, id int32) {
		added := []Added{{ID: id, Content: content}}
		ParseRanks(ranks, added) // without the bytes never a vocabulary
		if tok, err := ParseRanks(slices.Concat(base, ranks), added); err == nil {
			checkUsable(t, tok)
		}
	})
}

func checkUsable(t *testing.T, tok *Tokenizer) {
	t.Helper()
	text := "Hello ab\n<x> \xFF 你"
	if got := string(tok.Raw(nil, tok.Encode(nil, text)...)); got != text {
		t.Fatalf("%q came back as %q", text, got)
	}
	for _, a := range tok.Added() {
		if string(tok.Bytes(a.ID)) != a.Content {
			t.Fatalf("added token %+v has bytes %q", a, tok.Bytes(a.ID))
		}
		for _, id := range tok.Encode(nil, a.Content) {
			if slices.ContainsFunc(tok.Added(), func(a Added) bool { return a.ID == id }) {
				t.Fatalf("Encode gave the added token %d", id)
			}
		}
	}
}
