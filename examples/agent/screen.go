package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// A screen writes to a terminal: text that is wrapped as it comes, and a spinner
// on the line below while nothing comes. Where there is no terminal it writes
// plain lines.
type screen struct {
	mu       sync.Mutex
	file     *os.File
	terminal bool // there is one: spin
	colour   bool
	fixed    int // columns, 0: ask the terminal

	column  int    // of the cursor
	indent  string // of wrapped lines
	word    string // not written yet: it may go on
	style   string // of the word
	blanks  int    // between what is written and the word
	label   string // what the spinner says, "": nothing
	since   time.Time
	spinned bool   // the spinner is on the cursor's line
	cost    string // of the step whose results are being shown
	stop    chan struct{}
	stopped sync.WaitGroup
}

const (
	plain = ""
	dim   = "\x1b[2m"
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	reset = "\x1b[0m"
)

var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func newScreen(f *os.File, width int) *screen {
	s := &screen{file: f, fixed: width, terminal: prepare(f), stop: make(chan struct{})}
	s.colour = s.terminal && os.Getenv("NO_COLOR") == ""
	if s.terminal {
		s.stopped.Go(s.spin)
	}
	return s
}

// close ends the spinner and leaves the cursor at the beginning of a line.
func (s *screen) close() {
	close(s.stop)
	s.stopped.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.label = ""
	s.fresh()
}

// width returns the columns to fill, 0 for no limit.
func (s *screen) width() int {
	switch {
	case s.fixed > 0:
		return max(s.fixed, 20)
	case !s.terminal:
		return 0
	}
	if n := columns(s.file); n > 0 {
		return max(n, 20)
	}
	return 80
}

// spin draws the spinner while the cursor is at the beginning of a line.
func (s *screen) spin() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.label != "" && s.column == 0 && s.word == "" {
			text := fmt.Sprintf("%s %s  %.1fs", frames[n%len(frames)], s.label, time.Since(s.since).Seconds())
			s.write("\r\x1b[K" + s.paint(dim, cut(text, s.width()-1)))
			s.spinned = true
		}
		s.mu.Unlock()
	}
}

// busy says what goes on.
func (s *screen) busy(label string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.label != label {
		s.since = time.Now()
	}
	s.label = label
}

// write sends bytes to the terminal; that it is gone is noticed elsewhere.
func (s *screen) write(text string) { s.file.WriteString(text) }

// wipe removes the spinner.
func (s *screen) wipe() {
	if s.spinned {
		s.write("\r\x1b[K")
		s.spinned = false
	}
}

// fresh goes to the beginning of a line.
func (s *screen) fresh() {
	s.flush()
	s.wipe()
	if s.column > 0 {
		s.write("\n")
		s.column = 0
	}
}

func (s *screen) paint(style, text string) string {
	if !s.colour || style == plain || text == "" {
		return text
	}
	return style + text + reset
}

// line writes one line, cut to the width.
func (s *screen) line(parts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh()
	room := s.width()
	var b strings.Builder
	for i := 0; i+1 < len(parts); i += 2 { // style, text
		text := expand(clean(parts[i+1]))
		if s.width() > 0 {
			text = cut(text, room)
			room -= cells(text)
		}
		b.WriteString(s.paint(parts[i], text))
	}
	s.write(strings.TrimRight(b.String(), " ") + "\n")
}

// hanging is how much farther in a long line goes on.
const hanging = "    "

// long writes one line and goes on in the next one where it is too long.
func (s *screen) long(indent, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh()
	w, column := s.width(), 0
	for _, r := range indent + expand(clean(text)) {
		if n := cellsOf(r); w > 0 && column+n > w {
			s.write("\n" + indent + hanging)
			column = len(indent) + len(hanging)
		}
		s.write(string(r))
		column += cellsOf(r)
	}
	s.write("\n")
}

// flow writes text that goes on, wrapped between words.
func (s *screen) flow(style, indent, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.style != style || s.indent != indent {
		s.flush()
		s.style, s.indent = style, indent
	}
	for _, r := range clean(text) {
		switch {
		case r == '\n':
			s.flush()
			s.wipe()
			s.write("\n")
			s.column, s.blanks = 0, 0
		case unicode.IsSpace(r):
			s.flush()
			s.blanks += len(expand(string(r)))
		default:
			s.word += string(r)
		}
	}
}

// flush writes the word that was held back.
func (s *screen) flush() {
	if s.word == "" {
		return
	}
	s.wipe()
	w := s.width()
	if w > 0 && s.column > len(s.indent) && s.column+s.blanks+cells(s.word) > w {
		s.write("\n")
		s.column, s.blanks = 0, 0
	}
	if s.column == 0 {
		s.write(s.indent)
		s.column = len(s.indent)
	}
	s.write(strings.Repeat(" ", s.blanks) + s.paint(s.style, s.word))
	s.column += s.blanks + cells(s.word)
	s.word, s.blanks = "", 0
}

// clean makes text harmless: what a file or a model says must not move the cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return '·'
		}
		return r
	}, s)
}

// expand replaces tabs, which would make columns unknown.
func expand(s string) string { return strings.ReplaceAll(s, "\t", "    ") }

// cells counts the columns of text.
func cells(s string) (n int) {
	for _, r := range s {
		n += cellsOf(r)
	}
	return n
}

// cellsOf is 2 for the scripts and symbols that terminals draw wide.
func cellsOf(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r <= 0x115F, r >= 0x2E80 && r <= 0xA4CF && r != 0x303F, r >= 0xAC00 && r <= 0xD7A3,
		r >= 0xF900 && r <= 0xFAFF, r >= 0xFE30 && r <= 0xFE6F, r >= 0xFF00 && r <= 0xFF60, r >= 0xFFE0 && r <= 0xFFE6,
		r >= 0x1F300 && r <= 0x1F64F, r >= 0x1F900 && r <= 0x1F9FF, r >= 0x20000 && r <= 0x3FFFD:
		return 2
	}
	return 1
}

// cut shortens text to a number of columns.
func cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if cells(s) <= width {
		return s
	}
	used := 0
	for i, r := range s {
		if used += cellsOf(r); used > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}
