package tokenizer

import (
	"testing"
	"unicode"
)

// Package unicode may be older or newer than the pinned table. A character that
// both know must have the same class in both.
func TestClassesAgreeWithUnicode(t *testing.T) {
	counts := map[uint8]int{}
	differ := 0
	for r := range rune(unicode.MaxRune + 1) {
		if 0xD800 <= r && r < 0xE000 {
			continue
		}
		class, size := classAt(string(r), 0)
		if size != len(string(r)) {
			t.Fatalf("%U has size %d", r, size)
		}
		counts[class]++
		if want := goClass(r); class != want {
			differ++
			if !unicode.Is(unicode.Cn, r) && class != mark { // neither is a character new to one of them
				t.Errorf("%U has class %d, package unicode says %d", r, class, want)
			}
		}
	}
	// Unicode 16.0.0: 141,028 letters, 1,911 numbers, 25 White_Space.
	if counts[letter] != 141_028 || counts[number] != 1_911 || counts[blank] != 23 || counts[lineEnd] != 2 {
		t.Errorf("counts of classes: %v", counts)
	}
	t.Logf("Unicode %s here has %d characters of another class", unicode.Version, differ)
}

func goClass(r rune) uint8 {
	switch {
	case r == '\r' || r == '\n':
		return lineEnd
	case unicode.Is(unicode.White_Space, r):
		return blank
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	}
	return mark
}

func TestClassOfBrokenText(t *testing.T) {
	for _, s := range []string{"\x80", "\xFF", "\xC3", "\xE4\xBD", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC0\x80", "\xF0\x9F\x8E"} {
		for p := range len(s) {
			if class, size := classAt(s, p); class != mark || size != 1 {
				t.Errorf("byte %d of %q: class %d, size %d; want a mark of one byte", p, s, class, size)
			}
		}
	}
}
