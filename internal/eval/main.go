// Command eval lets a model repair the held-out tasks and prints which it did:
//
//	go run ./internal/eval internal/tiny/tasks/short.json
//
// The policy is that of the Python judge, internal/tiny/train/evaluate.py: greedy,
// at most 12 turns of at most 900 tokens, four tools that know nothing of repairs.
// A task passes if go test passes in the end, with the task's own test files.
//
// With -weights the model computes in another format than it is stored in. With
// -random the same model has weights that were never trained, with -withhold
// every result of a tool is an empty text: what passes then, the harness has done.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/eval/noise"
	"github.com/cofferdam-ml/cofferdam/internal/tiny"
	"github.com/cofferdam-ml/cofferdam/internal/tiny/tasks"
)

type options struct {
	dir      string
	files    []string
	latent   float64
	weights  string
	random   bool
	seed     uint64
	withhold bool
	count    int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "model", "", "checkpoint directory; empty: the embedded model")
	flag.Float64Var(&o.latent, "latent-eps", tiny.LatentEps, "epsilon of the latent norms; the default is the reference class's")
	flag.StringVar(&o.weights, "weights", "stored", "format to compute with: stored, int8 or int4")
	flag.BoolVar(&o.random, "random", false, "give the model random weights")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the random weights")
	flag.BoolVar(&o.withhold, "withhold", false, "make every result of a tool an empty text")
	flag.IntVar(&o.count, "count", 0, "take only the first tasks of each file; 0: all")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: eval [-model DIR] [-weights FORMAT] [-random] [-withhold] [-count N] TASKS.json...")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.files = flag.Args()
	if len(o.files) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

var formats = map[string]glm.Weights{"stored": glm.AsStored, "int8": glm.Int8, "int4": glm.Int4}

func run(ctx context.Context, out io.Writer, o options) error {
	fsys := tiny.FS()
	if o.dir != "" {
		fsys = os.DirFS(o.dir)
	}
	if o.random {
		var err error
		if fsys, err = noise.FS(fsys, o.seed); err != nil {
			return err
		}
	}
	weights, ok := formats[o.weights]
	if !ok {
		return fmt.Errorf("-weights %s: want stored, int8 or int4", o.weights)
	}
	m, err := glm.OpenFS(ctx, fsys, glm.Config{LatentEps: o.latent, Weights: weights})
	if err != nil {
		return err
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: window, AllowSmallerPool: true})
	if err != nil {
		return err
	}
	for _, name := range o.files {
		list, err := readTasks(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if o.count > 0 {
			list = list[:min(o.count, len(list))]
		}
		if err := file(ctx, out, m, pool, o, filepath.Base(name), list); err != nil {
			return err
		}
	}
	return nil
}

func readTasks(name string) ([]tasks.Task, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return tasks.Read(f)
}

// file runs one file of tasks and prints the score.
func file(ctx context.Context, out io.Writer, m *glm.Model, pool *glm.KVPool, o options, name string, list []tasks.Task) error {
	type score struct{ passed, all int }
	kinds, causes := map[string]score{}, map[string]int{}
	var total score
	began := time.Now()
	for _, task := range list {
		r, err := repair(ctx, m, pool, task, o.withhold)
		if err != nil {
			return fmt.Errorf("%s: %w", task.Name, err)
		}
		k := kinds[task.Kind]
		k.all, total.all, causes[r.cause] = k.all+1, total.all+1, causes[r.cause]+1
		verdict := "FAILED"
		if r.passed {
			verdict, k.passed, total.passed = "passed", k.passed+1, total.passed+1
		}
		kinds[task.Kind] = k
		fmt.Fprintf(out, "%s  %s  %-9s %-14s %2d turns  %4d tokens  %3d%% cached  %6.1fs  %s\n", verdict, task.Name, task.Kind, task.Shape,
			r.turns, r.usage.Output, 100*r.usage.Cached/max(r.usage.Prompt, 1), r.took.Seconds(), r.cause)
	}
	fmt.Fprintf(out, "\n%s: %d of %d passed in %v\n", name, total.passed, total.all, time.Since(began).Round(time.Second))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(out, "  %-10s %d/%d\n", kind, kinds[kind].passed, kinds[kind].all)
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		fmt.Fprintf(out, "  %3d %s\n", causes[cause], cause)
	}
	return nil
}
