package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/agent"
	"github.com/cofferdam-ml/cofferdam/glm/agent/workspace"
)

// maxLines is how many lines of a result are shown.
const maxLines = 12

const margin = "  "

// title says what is about to happen.
func (s *screen) title(template, dir, task string) {
	s.line(bold, "cofferdam agent", dim, "  "+template+"  "+dir)
	s.flow(cyan, margin, task+"\n")
	s.line()
}

// event shows what happens in a run: what the model thinks, the calls with their
// results, and then what the step cost.
func (s *screen) event(ev agent.Event) {
	switch ev.(type) {
	case agent.Step, agent.Result:
	default:
		s.endStep()
	}
	switch ev := ev.(type) {
	case agent.ReasoningDelta:
		s.busy("thinking")
		s.flow(dim, margin, ev.Text)
	case agent.TextDelta:
		s.busy("answering")
		s.flow(plain, margin, ev.Text)
	case agent.CallDelta:
		if ev.Name != "" {
			s.pause()
			s.busy("calling " + ev.Name)
		}
	case agent.Step:
		s.pause()
		s.cost = fmt.Sprintf("step %d: %d tokens, %.0f/s, %d%% of the prompt cached",
			ev.Number, ev.Usage.Output, rate(ev.Usage.Output, ev.Elapsed), share(ev.Usage))
		s.busy("running the tools")
	case agent.Result:
		s.result(ev)
		s.busy("reading")
	case agent.ContextLow:
		s.note("%sThe context is nearly used up: %d of %d tokens.", margin, ev.Prompt, ev.Limit)
	}
}

// endStep says what the last step cost.
func (s *screen) endStep() {
	if s.cost != "" {
		s.line(dim, margin+s.cost)
		s.line()
		s.cost = ""
	}
}

// pause ends a paragraph that was flowing.
func (s *screen) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh()
}

// settle ends the spinner.
func (s *screen) settle() {
	s.busy("")
	s.pause()
	s.endStep()
}

func rate(tokens int, took time.Duration) float64 {
	return float64(tokens) / max(took.Seconds(), 1e-3)
}

func share(u glm.Usage) int { return 100 * u.Cached / max(u.Prompt, 1) }

// result shows a call and what it returned.
func (s *screen) result(r agent.Result) {
	var arguments struct{ Path, Old, New string }
	json.Unmarshal(r.Call.Arguments, &arguments) // of other tools: nothing
	style := green
	if r.Failed || r.Call.Name == "run_tests" && strings.Contains(r.Text, "FAIL") {
		style = red
	}
	path := arguments.Path
	if path != "" {
		path = " " + path
	}
	s.line(style, "● ", bold, r.Call.Name, plain, path, dim, "  "+brief(r))
	switch {
	case r.Failed || r.Call.Name == "run_tests":
		s.excerpt(r.Text)
	case r.Call.Name == "edit_file":
		s.diff(arguments.Old, arguments.New)
	}
}

// brief is a result in a few words.
func brief(r agent.Result) string {
	switch r.Call.Name {
	case "list_files":
		return strings.ReplaceAll(r.Text, "\n", "  ")
	case "read_file":
		if !r.Failed {
			return fmt.Sprintf("%d lines", strings.Count(r.Text, "\n"))
		}
	case "edit_file":
		if !r.Failed {
			return r.Text
		}
	case "run_tests":
		return fmt.Sprintf("%.1fs", r.Elapsed.Seconds())
	}
	return ""
}

// excerpt shows the first lines of a text.
func (s *screen) excerpt(text string) {
	list := lines(text)
	for i, l := range list {
		if i == maxLines {
			s.line(dim, fmt.Sprintf("%s  (%d more lines)", margin, len(list)-maxLines))
			break
		}
		s.long(margin+"  ", l)
	}
}

// diff shows what a change changes.
func (s *screen) diff(before, after string) {
	for _, l := range diff(before, after) {
		switch l.side {
		case '-':
			s.line(red, margin+"- "+l.text)
		case '+':
			s.line(green, margin+"+ "+l.text)
		case ' ':
			s.line(dim, margin+"  "+l.text)
		default:
			s.line(dim, margin+"  ...")
		}
	}
}

// changes shows what became of the files since a snapshot.
func (s *screen) changes(before map[string]string, w *workspace.Workspace) error {
	after, err := snapshot(w)
	if err != nil {
		return err
	}
	changed := 0
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] == before[name] {
			continue
		}
		if changed++; changed > 1 {
			s.line()
		}
		s.line(bold, "changed ", plain, name)
		s.diff(before[name], after[name])
	}
	if changed == 0 {
		s.note("Nothing was changed.")
	}
	return nil
}

// verdict says whether the tests pass.
func (s *screen) verdict(passed bool) {
	s.settle()
	s.line()
	if passed {
		s.line(green+bold, "go test passes")
	} else {
		s.line(red+bold, "go test fails")
	}
}

// summary says what it took.
func (s *screen) summary(steps int, u glm.Usage, took time.Duration) {
	s.line(dim, fmt.Sprintf("%d steps, %d tokens, %d%% of %d prompt tokens cached, %.1f s in all",
		steps, u.Output, share(u), u.Prompt, took.Seconds()))
}

// note says something that is not from the model.
func (s *screen) note(format string, args ...any) {
	s.pause()
	s.flow(dim, "", fmt.Sprintf(format, args...)+"\n")
}
