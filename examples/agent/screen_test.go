package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/agent"
	"github.com/google/go-cmp/cmp"
)

// written returns what a screen of a width writes without a terminal.
func written(t *testing.T, width int, f func(*screen)) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := newScreen(file, width)
	f(s)
	s.close()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// However text comes in pieces, it is wrapped in the same way and within the width.
func TestFlow(t *testing.T) {
	const text = "The quick brown fox jumps over the lazy dog,\n  twice: 世界世界世界 and an-unbreakably-long-word-of-more-than-a-line.\n\nEnd."
	whole := written(t, 22, func(s *screen) { s.flow(dim, margin, text) })
	for _, piece := range []int{1, 2, 3, 7} {
		got := written(t, 22, func(s *screen) {
			r := []rune(text)
			for len(r) > 0 {
				n := min(piece, len(r))
				s.flow(dim, margin, string(r[:n]))
				r = r[n:]
			}
		})
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Errorf("in pieces of %d: %s", piece, diff)
		}
	}
	const want = `  The quick brown fox
  jumps over the lazy
  dog,
    twice:
  世界世界世界 and
  an-unbreakably-long-word-of-more-than-a-line.

  End.
`
	if diff := cmp.Diff(want, whole); diff != "" {
		t.Error(diff)
	}
	if unlimited := written(t, 0, func(s *screen) { s.flow(plain, margin, "a long line "+strings.Repeat("word ", 100)) }); strings.Count(unlimited, "\n") != 1 {
		t.Errorf("a file is wrapped: %q", unlimited)
	}
}

// Nothing that a file or a model says moves the cursor or sets a colour.
func TestClean(t *testing.T) {
	evil := "\x1b[2J\x1b]0;title\x07\r\b\u009b31m\u202e\u200b\x00\xffok"
	got := written(t, 0, func(s *screen) {
		s.flow(plain, "", evil)
		s.line(red, evil)
		s.excerpt(evil + "\n" + evil)
	})
	for _, r := range got {
		if r < ' ' && r != '\n' || r == 0x9b || r == 0x202e || r == 0x200b || r == '\uFFFD' {
			t.Errorf("%q comes through in %q", r, got)
		}
	}
	if strings.Count(got, "ok") != 4 {
		t.Errorf("%q", got)
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"世界", 4, "世界"}, {"世界", 3, "世…"}, {"世界世", 4, "世…"}, {"abc", 0, ""}, {"a", 1, "a"}, {"ab", 1, "…"},
	} {
		if got := cut(test.text, test.width); got != test.want || cells(got) > test.width {
			t.Errorf("%q to %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

func TestDiff(t *testing.T) {
	show := func(list []diffLine) string {
		var b strings.Builder
		for _, l := range list {
			if l.side == 0 {
				b.WriteString("...\n")
				continue
			}
			fmt.Fprintf(&b, "%c%s\n", l.side, l.text)
		}
		return b.String()
	}
	long := strings.Repeat("same\n", 10)
	for _, test := range []struct{ before, after, want string }{
		{"a\nb\nc\n", "a\nx\nc\n", " a\n-b\n+x\n c\n"},
		{"a\n", "a\n", ""},
		{"", "a\nb\n", "+a\n+b\n"},
		{"a\nb\n", "", "-a\n-b\n"},
		{"a\nb\nc\nd\n", "b\nc\nd\na\n", "-a\n b\n c\n d\n+a\n"},
		{"x\n" + long + "y\n", "X\n" + long + "Y\n", "-x\n+X\n same\n same\n same\n...\n same\n same\n same\n-y\n+Y\n"},
		{long + "a", long + "b", " same\n same\n same\n-a\n+b\n"},
	} {
		if got := show(diff(test.before, test.after)); got != test.want {
			t.Errorf("%q, %q: %q, want %q", test.before, test.after, got, test.want)
		}
	}
	// What is neither new nor old is the other text.
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var texts [2][]string
		for i := range texts {
			for range random.IntN(12) {
				texts[i] = append(texts[i], string(rune('a'+random.IntN(4))))
			}
		}
		var before, after []string
		for _, l := range middle(texts[0], texts[1]) {
			if l.side != '+' {
				before = append(before, l.text)
			}
			if l.side != '-' {
				after = append(after, l.text)
			}
		}
		if !slices.Equal(before, texts[0]) || !slices.Equal(after, texts[1]) {
			t.Errorf("the difference of %q and %q is of %q and %q", texts[0], texts[1], before, after)
		}
	}
	// A text that is too large for the table is still complete.
	before, after := strings.Repeat("a\nb\n", 2000), strings.Repeat("c\nd\n", 2000)
	if got := show(diff(before, after)); strings.Count(got, "-") != 4000 || strings.Count(got, "+") != 4000 {
		t.Error("lines got lost")
	}
}

// Each seed stands for a task that fails its tests, laid out as it is.
func TestLayOut(t *testing.T) {
	task, dir, err := layOut(107)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	again, dir2, err := layOut(7)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir2)
	if task.Name != again.Name || task.Name == "" || dir == dir2 {
		t.Errorf("%q in %s, %q in %s", task.Name, dir, again.Name, dir2)
	}
	for name, text := range task.Files {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != text {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Results stand under the call they belong to, what a step cost behind them.
func TestEvents(t *testing.T) {
	got := written(t, 60, func(s *screen) {
		s.event(agent.ReasoningDelta{Text: "I look "})
		s.event(agent.ReasoningDelta{Text: "around."})
		s.event(agent.CallDelta{Name: "list_files"})
		s.event(agent.Step{Number: 1, Usage: glm.Usage{Prompt: 200, Cached: 50, Output: 30}, Elapsed: 500 * time.Millisecond})
		s.event(agent.Result{Call: agent.Call{Name: "list_files"}, Text: "a.go\nb.go"})
		s.event(agent.Result{Call: agent.Call{Name: "read_file", Arguments: []byte(`{"path":"a.go"}`)}, Text: "a\nb\n"})
		s.event(agent.Result{Call: agent.Call{Name: "edit_file", Arguments: []byte(`{"path":"a.go","old":"\ta\n","new":"\tc\n"}`)}, Text: "ok"})
		s.event(agent.Result{Call: agent.Call{Name: "gone"}, Text: "error: no tool gone", Failed: true})
		s.event(agent.Result{Call: agent.Call{Name: "run_tests"}, Text: "FAIL " + strings.Repeat("x", 60) + strings.Repeat("\nFAIL", 13), Elapsed: time.Second})
		s.event(agent.TextDelta{Text: "Done."})
		s.event(agent.Done{})
		s.settle()
	})
	want := `  I look around.
● list_files  a.go  b.go
● read_file a.go  2 lines
● edit_file a.go  ok
  -     a
  +     c
● gone
    error: no tool gone
● run_tests  1.0s
    FAIL xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        xxxxxxxxx
` + strings.Repeat("    FAIL\n", 11) + `    (2 more lines)
  step 1: 30 tokens, 60/s, 25% of the prompt cached

  Done.
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
