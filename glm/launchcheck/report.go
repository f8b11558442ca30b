package launchcheck

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// A Check is one line of the report.
type Check struct {
	Group  string
	Name   string
	Asked  int      // generations that were asked for
	Seen   string   // what it rests on, in numbers
	Doubts []string // none: passed
}

// A Report is everything that was looked at, in order.
type Report struct {
	Model   string   // what was checked
	Canary  []int32  // ids that only the donor uses
	Words   []string // what they stand for, if the model has a tokenizer
	Checks  []Check
	Rows    int // positions that were computed
	Elapsed time.Duration
}

// OK reports whether something was checked and nothing is in doubt.
func (r *Report) OK() bool { return len(r.Checks) > 0 && r.doubts() == 0 }

func (r *Report) doubts() (n int) {
	for _, c := range r.Checks {
		n += len(c.Doubts)
	}
	return n
}

// widest is how much of what was seen fits into the table.
const widest = 90

// WriteTo writes the report as a table, and every doubt in full below it.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "launch check of %s, canaries %v %q\n\n", r.Model, r.Canary, r.Words)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "check\t\tasked\tverdict\tseen")
	asked := 0
	for _, c := range r.Checks {
		verdict := "ok"
		if len(c.Doubts) > 0 {
			verdict = "DOUBT"
		}
		asked += c.Asked
		seen := c.Seen
		if len(seen) > widest {
			seen = seen[:widest] + "..."
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", c.Group, c.Name, c.Asked, verdict, seen)
	}
	t.Flush()
	for _, c := range r.Checks {
		for _, d := range c.Doubts {
			fmt.Fprintf(&b, "\nDOUBT %s, %s: %s", c.Group, c.Name, d)
		}
	}
	fmt.Fprintf(&b, "\n%d checks, %d generations, %d rows computed in %v: %s\n", len(r.Checks), asked, r.Rows, r.Elapsed.Round(time.Millisecond), plural(r.doubts(), "doubt", "doubts"))
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
