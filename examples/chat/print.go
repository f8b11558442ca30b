package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// printer writes events as a person wants to read them.
type printer struct {
	colour    bool
	reasoning bool // the last thing printed was reasoning
}

func (p *printer) event(ev glm.Event) {
	switch ev := ev.(type) {
	case glm.ReasoningDelta:
		p.reasoning = true
		fmt.Print(p.dim(ev.Text))
	case glm.TextDelta:
		if p.reasoning {
			p.reasoning = false
			fmt.Print("\n\n")
		}
		fmt.Print(ev.Text)
	case glm.ToolCall:
		fmt.Printf("\n[%s %s]", ev.Name, ev.Arguments)
	case glm.BadToolCall:
		fmt.Printf("\n[a call that cannot be read: %v]", ev.Err)
	case glm.Finish:
		if ev.Reason != glm.FinishStop {
			fmt.Print(p.dim("\n[" + string(ev.Reason) + "]"))
		}
	}
}

func (p *printer) dim(s string) string {
	if !p.colour || s == "" {
		return s
	}
	return "\x1b[2m" + s + "\x1b[0m"
}

// progress is a bar on one line of standard error.
type progress struct {
	tty   bool
	drawn int // cells, plus one
}

const cells = 40

func (b *progress) show(p glm.Progress) {
	n := cells
	if p.Total > 0 {
		n = int(cells * p.Done / p.Total)
	}
	if !b.tty || b.drawn == n+1 {
		return
	}
	b.drawn = n + 1
	fmt.Fprintf(os.Stderr, "\rloading [%s%s] %3d%%", strings.Repeat("#", n), strings.Repeat(".", cells-n), 100*n/cells)
}

// done clears the bar.
func (b *progress) done() {
	if b.drawn > 0 {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

// terminal reports whether a file is a terminal a person looks at.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
