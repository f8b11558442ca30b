// Package corpus makes text for testing a tokenizer: always the same text for the
// same seed, in every Go version, without any file.
//
// The text is synthetic, but its shape is that of what models read: code in a
// dozen languages, prose in several scripts, tables of numbers, emoji, and the
// things that trip tokenizers up: long runs of blanks or of one letter, combining
// marks, odd apostrophes, rare blanks, bytes that are not UTF-8.
//
// # Caveats
//
// Words are drawn independently of each other, the frequent ones more often. So
// throughput measured here is like that of real text, compression is not.
package corpus

import (
	"strings"
	"unicode/utf8"
)

// A Kind is one sort of text.
type Kind string

// Kinds lists all sorts. All are valid UTF-8 but Broken.
var Kinds = []Kind{Code, Prose, Chinese, Scripts, Emoji, Blanks, Digits, Marks, Contractions, Soup, Runs, Control, Broken}

const (
	Code         Kind = "code"         // a dozen programming and markup languages
	Prose        Kind = "prose"        // English, German, French, Spanish
	Chinese      Kind = "chinese"      // Han, mixed with Latin terms and digits
	Scripts      Kind = "scripts"      // Cyrillic, Greek, Arabic, Devanagari, Thai, Hangul, kana
	Emoji        Kind = "emoji"        // with modifiers, joiners and flags
	Blanks       Kind = "blanks"       // runs of every Unicode blank and line end
	Digits       Kind = "digits"       // numbers, dates, tables, digits of other scripts
	Marks        Kind = "marks"        // letters with stacks of combining marks
	Contractions Kind = "contractions" // apostrophes before what may or may not be a suffix
	Soup         Kind = "soup"         // any code points at all
	Runs         Kind = "runs"         // one character repeated, up to thousands of times
	Control      Kind = "control"      // the control tokens of GLM, whole and mutilated, amid prose
	Broken       Kind = "broken"       // any of these with bytes changed, cut and inserted
)

// A writer draws text. The generator is splitmix64, written out so that no
// library can change it.
type writer struct {
	strings.Builder
	state uint64
}

func (w *writer) next() uint64 {
	w.state += 0x9E3779B97F4A7C15
	z := w.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (w *writer) below(n int) int { return int(w.next() >> 1 % uint64(n)) }

func (w *writer) one(percent int) bool { return w.below(100) < percent }

// low returns a number from 0 to n-1, small ones much more often, as words are.
func (w *writer) low(n int) int {
	x := uint64(w.below(1 << 16))
	return int(x * x >> 16 * uint64(n) >> 16)
}

func (w *writer) pick(list []string) string { return list[w.low(len(list))] }

func (w *writer) rune(from, to rune) { w.WriteRune(from + rune(w.below(int(to-from+1)))) }

// Text returns size bytes of text, less at most a few so as not to cut a
// character (which only Broken text does).
func Text(kind Kind, seed uint64, size int) string {
	w := &writer{state: seed}
	for w.Len() < size {
		w.passage(kind)
	}
	s := w.String()[:size]
	for kind != Broken && len(s) > 0 {
		if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}

// Golden returns the text that testdata/golden.json of package tokenizer is about.
func Golden(kind Kind) string { return Text(kind, 20261130, 64<<10) }

// Mixed returns size bytes in which all kinds that are UTF-8 take turns.
func Mixed(seed uint64, size int) string {
	var b strings.Builder
	valid := Kinds[:len(Kinds)-1]
	for i := 0; b.Len() < size; i++ {
		b.WriteString(Text(valid[i%len(valid)], seed+uint64(i), min(4096, size-b.Len())))
		if size-b.Len() < utf8.UTFMax {
			break
		}
	}
	return b.String()
}

// passage writes a few dozen to a few hundred bytes of one kind.
func (w *writer) passage(kind Kind) {
	switch kind {
	case Code:
		w.code()
	case Prose:
		w.sentence(prose[w.below(len(prose))], " ", ".")
	case Chinese:
		w.chinese()
	case Scripts:
		w.sentence(scripts[w.below(len(scripts))], " ", ".")
	case Emoji:
		w.emoji()
	case Blanks:
		w.blanks()
	case Digits:
		w.digits()
	case Marks:
		w.marks()
	case Contractions:
		w.contraction()
	case Soup:
		w.soup()
	case Runs:
		w.run()
	case Control:
		w.control()
	case Broken:
		w.broken()
	}
}
