// Command quality measures what int8 and int4 weights cost the embedded model: its
// perplexity on the 20,000 held-out tokens against that with weights as stored, with
// the standard error, and how often the most likely token stays the same.
//
//	go run ./internal/bench/quality
//
// It ends with status 1 if a format misses its bound. RESULT.md has a run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/tiny"
)

// bounds are the largest ratios of a format's perplexity to that of stored weights.
var bounds = []struct {
	format cpu.Format
	ratio  float64
}{{cpu.Int8, 1.005}, {cpu.Int4, 1.02}}

func main() {
	dir := flag.String("goldens", filepath.Join("internal", "tiny", "goldens"), "directory of heldout.u16 and goldens.json")
	threads := flag.Int("threads", 0, "0: GOMAXPROCS")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, os.Stdout, *dir, *threads)
	if err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// run measures every format and reports whether all keep their bounds.
func run(ctx context.Context, out io.Writer, goldens string, threads int) (ok bool, err error) {
	held, err := readHeldOut(goldens)
	if err != nil {
		return false, err
	}
	stored, err := measure(ctx, tiny.FS(), held, cpu.AsStored, threads)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%-10s  %-11s  %-19s  %-7s  %s\n", "weights", "perplexity", "ratio", "at most", "top-1 as with stored weights")
	fmt.Fprintf(out, "%-10s  %11.5f\n", cpu.AsStored, stored.perplexity())
	ok = true
	for _, b := range bounds {
		m, err := measure(ctx, tiny.FS(), held, b.format, threads)
		if err != nil {
			return false, err
		}
		ratio, sure := m.ratio(stored)
		fmt.Fprintf(out, "%-10s  %11.5f  %8.5f +- %.5f  %7.3f  %d of %d, %.2f %%\n",
			b.format, m.perplexity(), ratio, sure, b.ratio, m.agrees(stored), len(m.top), 100*float64(m.agrees(stored))/float64(len(m.top)))
		ok = ok && ratio <= b.ratio
	}
	return ok, nil
}
