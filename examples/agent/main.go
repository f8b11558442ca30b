// Command agent repairs Go code with a GLM that runs inside of it.
//
//	go run ./examples/agent                                 # a small broken package, drawn from a seed
//	go run ./examples/agent -model DIR -dir REPO "task"     # your own model and code
//
// It shows what the model thinks, which tools it calls and what they answer, the
// changes it makes, how fast it is, and how much of each prompt came from cache.
// Running the tests of your own code is asked for, unless -yes says that it need
// not be. Ctrl-C stops at once and leaves files whole; a second one kills.
//
// It exits with 0 if the model came to an answer and, where it may run them without
// asking, the tests pass; with 1 if not, 2 if it was called wrongly and 130 if it
// was stopped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/agent"
	"github.com/cofferdam-ml/cofferdam/glm/agent/workspace"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
)

type options struct {
	model, dir, task string
	yes              bool
	seed             uint64
	width            int
}

func main() {
	var o options
	flag.StringVar(&o.model, "model", "", "checkpoint directory; empty: the embedded model")
	flag.StringVar(&o.dir, "dir", "", "folder with the code; a task without it means the current one")
	flag.BoolVar(&o.yes, "yes", false, "run commands without asking")
	flag.Uint64Var(&o.seed, "seed", 7, "which broken package to repair if no task is given; 0: any")
	flag.IntVar(&o.width, "width", 0, "columns to fill; 0: those of the terminal")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, `usage: agent [-seed N] [-width N]`+"\n"+`       agent [-model DIR] [-dir REPO] [-yes] [-width N] "task"`)
		flag.PrintDefaults()
	}
	flag.Parse()
	o.task = strings.Join(flag.Args(), " ")
	if o.dir != "" && o.task == "" || o.width < 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // the next Ctrl-C is the system's
	s := newScreen(os.Stdout, o.width)
	passed, err := run(ctx, s, o)
	s.close()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "stopped")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	case !passed:
		os.Exit(1)
	}
}

// run reports whether the tests pass in the end.
func run(ctx context.Context, s *screen, o options) (passed bool, err error) {
	began := time.Now()
	s.busy("opening the model")
	m, err := open(ctx, o.model)
	if err != nil {
		return false, err
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 16384, AllowSmallerPool: true})
	if err != nil {
		return false, err
	}
	config := agent.Config{}
	if o.task == "" { // one of the tasks that the small model is judged by, on its terms
		if err := o.drawTask(s); err != nil {
			return false, err
		}
		config.Sampling, config.Steps, config.StepTokens, config.Repeats = &glm.Sampling{}, 12, 900, 12
	} else if o.dir == "" {
		o.dir = "."
	}
	w, err := workspace.Open(o.dir)
	if err != nil {
		return false, err
	}
	defer w.Close()
	before, err := snapshot(w)
	if err != nil {
		return false, err
	}
	config.Tools = w.Tools()
	if !o.yes {
		config.Tools = asking(s, config.Tools)
		if !s.asks() {
			s.note("Nobody can be asked here, so the tests will not be run; -yes allows it.")
		}
	}
	a, err := agent.New(m, pool, config)
	if err != nil {
		return false, err
	}
	defer a.Close()

	s.title(m.Template(), o.dir, o.task)
	s.busy("reading")
	var total glm.Usage
	steps := 0
	for ev, e := range a.Run(ctx, o.task) {
		if e != nil {
			err = e
			break
		}
		if st, ok := ev.(agent.Step); ok {
			steps, total = st.Number, sum(total, st.Usage)
		}
		s.event(ev)
	}
	if err != nil && !told(err) {
		return false, err
	}
	s.settle()
	if err != nil {
		s.note("The model did not come to an end: %v", err)
	}
	if err := s.changes(before, w); err != nil {
		return false, err
	}
	if o.yes {
		s.busy("go test")
		if passed, err = w.Passes(ctx); err != nil {
			return false, err
		}
		s.verdict(passed)
	} else {
		passed = err == nil // the last word is the user's
	}
	s.summary(steps, total, time.Since(began))
	return passed, nil
}

func sum(a, b glm.Usage) glm.Usage {
	return glm.Usage{Prompt: a.Prompt + b.Prompt, Cached: a.Cached + b.Cached, Output: a.Output + b.Output, Reasoning: a.Reasoning + b.Reasoning}
}

// told reports whether an error is about what the model did with its budget: then
// there is still something to show.
func told(err error) bool {
	return errors.Is(err, agent.ErrBudget) || errors.Is(err, agent.ErrRepeat) ||
		errors.Is(err, glm.ErrContextExceedsModel) || errors.Is(err, glm.ErrContextExceedsPool)
}

// open opens the model in a directory.
func open(ctx context.Context, dir string) (*glm.Model, error) {
	if dir == "" {
		return demo.Open(ctx)
	}
	return glm.Open(ctx, dir, glm.Config{})
}

// drawTask lays a held-out task out in a temporary folder.
func (o *options) drawTask(s *screen) error {
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	task, dir, err := layOut(o.seed)
	if err != nil {
		return err
	}
	s.note("seed %d: task %s", o.seed, task.Name)
	o.dir, o.task, o.yes = dir, task.Request, true
	return nil
}
