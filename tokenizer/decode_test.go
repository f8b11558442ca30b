package tokenizer

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

func TestDecoderReplaces(t *testing.T) {
	tok := loadBytes(t)
	// From the Unicode standard, tables 3-8 to 3-11, and the edges of table 3-7.
	for _, test := range []struct{ raw, want string }{
		{"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
		{"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
		{"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB"},
		{"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
		{"\xE0\xA0\x80\xED\x9F\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", "\u0800\uD7FF\U00010000\U0010FFFF"},
		{"\xE4\xBD", "\uFFFD"},
		{"\xF0\x9F\x8E\xE4\xBD\xA0", "\uFFFD你"},
		{"\xF0\x9F\x8E\x89", "🎉"},
	} {
		if got := tok.Decode(tok.Encode(nil, test.raw)); got != test.want {
			t.Errorf("%q: got %q, want %q", test.raw, got, test.want)
		}
		if got := replaceByDefinition(test.raw); got != test.want {
			t.Errorf("the test's own definition gives %q for %q, want %q", got, test.raw, test.want)
		}
	}
}

// replaceByDefinition writes U+FFFD for each maximal subpart: the longest
// beginning of some well-formed sequence, or one byte.
func replaceByDefinition(s string) (text string) {
	for len(s) > 0 {
		if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n > 1 {
			text += s[:n]
			s = s[n:]
			continue
		}
		n := 1
		for k := 2; k <= 3 && k <= len(s); k++ {
			if beginsCharacter(s[:k]) {
				n = k
			}
		}
		text += "\uFFFD"
		s = s[n:]
	}
	return text
}

func beginsCharacter(s string) bool {
	if len(s) >= utf8.UTFMax {
		return false
	}
	for b := 0x80; b <= 0xBF; b++ {
		if longer := s + string([]byte{byte(b)}); utf8.RuneCountInString(longer) == 1 || beginsCharacter(longer) {
			return true
		}
	}
	return false
}

func TestDecoderInChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, tok := range map[string]*Tokenizer{"cl100k": loadCL100K(t), "bytes": loadBytes(t)} {
		for _, kind := range corpus.Kinds {
			raw := corpus.Text(kind, 11, 3_000)
			ids := tok.Encode(nil, raw)
			if rng.IntN(2) == 0 {
				rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				raw = string(tok.Raw(nil, ids...))
			}
			want := replaceByDefinition(raw)
			if got := tok.Decode(ids); got != want {
				t.Errorf("%s, %s: Decode gives %d bytes, want %d", name, kind, len(got), len(want))
			}
			d := tok.NewDecoder()
			var streamed string
			for _, id := range ids {
				part := string(d.Append(nil, id))
				if !utf8.ValidString(part) {
					t.Fatalf("%s, %s: Append gave %q", name, kind, part)
				}
				streamed += part
			}
			streamed += string(d.Flush(nil))
			if streamed != want {
				t.Errorf("%s, %s: the stream gives %d bytes, want %d", name, kind, len(streamed), len(want))
			}
		}
	}
}

func TestDecoderHoldsBack(t *testing.T) {
	tok := loadBytes(t)
	d := tok.NewDecoder()
	ids := tok.Encode(nil, "🎉") // four tokens of one byte
	for _, id := range ids[:3] {
		if got := d.Append(nil, id); len(got) > 0 {
			t.Errorf("the Decoder gave %q in the middle of a character", got)
		}
	}
	if got := string(d.Append([]byte("x"), ids[3])); got != "x🎉" {
		t.Errorf("got %q, want the whole character after what was there", got)
	}
	d.Append(nil, ids[0])
	if got := string(d.Flush(nil)); got != "\uFFFD" {
		t.Errorf("Flush in the middle of a character: got %q", got)
	}
	if got := string(d.Append(nil, tok.Encode(nil, "y")[0])) + string(d.Flush(nil)); got != "y" {
		t.Errorf("after Flush: got %q", got)
	}
}

func TestDecoderPassesOverHoles(t *testing.T) {
	tok := loadBytes(t)
	d := tok.NewDecoder()
	ids := tok.Encode(nil, "é")
	for _, id := range []int32{ids[0], -1, int32(tok.Size()), 300, 1<<31 - 1, ids[1]} {
		if got := d.Append(nil, id); id != ids[1] && len(got) > 0 {
			t.Errorf("id %d gave %q", id, got)
		} else if id == ids[1] && string(got) != "é" {
			t.Errorf("got %q, want the character whole", got)
		}
	}
}
