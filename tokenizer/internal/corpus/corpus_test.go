package corpus

import (
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, kind := range Kinds {
		const size = 20_000
		s := Text(kind, 1, size)
		if len(s) > size || len(s) < size-3 {
			t.Errorf("%s: %d bytes, want %d or up to 3 less", kind, len(s), size)
		}
		if utf8.ValidString(s) == (kind == Broken) {
			t.Errorf("%s: valid UTF-8 is %v", kind, utf8.ValidString(s))
		}
		if Text(kind, 1, size) != s {
			t.Errorf("%s: the same seed gives other text", kind)
		}
		if Text(kind, 2, size) == s {
			t.Errorf("%s: another seed gives the same text", kind)
		}
	}
}

func TestMixed(t *testing.T) {
	s := Mixed(1, 100_000)
	if len(s) < 100_000-3 || len(s) > 100_000 || !utf8.ValidString(s) {
		t.Errorf("%d bytes, valid UTF-8 %v", len(s), utf8.ValidString(s))
	}
}
