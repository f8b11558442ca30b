// Command kernels measures the CPU backend's products on synthetic weights.
//
// Most cases run the backend's own operations, threads and all, over operands that
// together exceed the caches: products with a matrix, the routed experts and the
// attention of a layer of GLM-4.7-Flash. Weights of four and eight bits, which the
// backend does not load yet, run on their kernels. Each case prints the time of
// one product, the bytes and arithmetic it stands for, and their share of what
// the memory gave when it was only read, or the processor when it only multiplied
// f32, just before and on the same kind of pages. Times are the best and the median
// of the repetitions.
//
//	go run ./internal/bench/kernels -secs 1 -json kernels.json
//
// Measured results are in RESULT.md beside this file.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// result is one line of the report.
type result struct {
	Name      string
	Threads   int
	Bytes     float64 // read from memory by one product
	Flops     float64
	Best      float64 // seconds
	Median    float64
	Reps      int
	GFlops    float64 // by the median
	GBytes    float64
	Bandwidth float64 // share of what reading gave just before; 0 where memory does not bind
	Peak      float64 // share of the f32 peak just before; 0 where memory binds
}

var (
	secs    = flag.Float64("secs", 0.5, "seconds per case")
	only    = flag.String("only", "", "run only the cases whose name contains this")
	threads = flag.Int("threads", runtime.GOMAXPROCS(0), "threads")
	out     = flag.String("json", "", "write the results to this file")
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("kernels: ")
	flag.Parse()
	fmt.Printf("%s, %s/%s, %d threads, kernels: %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, *threads, kernel.Name())
	results, err := run()
	if err != nil {
		log.Fatal(err)
	}
	if *out != "" {
		data, err := json.MarshalIndent(results, "", "\t")
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(*out, append(data, '\n'), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

func run() (results []result, err error) {
	p, err := newProducts(*threads)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	// measure runs one case. What binds it, memory or arithmetic, is measured just
	// before.
	measure := func(name string, memory bool, f func(name string) (result, error)) error {
		if !strings.Contains(name, *only) {
			return nil
		}
		var read, peak float64
		if memory {
			read = p.readBandwidth()
		} else {
			peak = p.peak()
		}
		r, err := f(name)
		if err != nil {
			return err
		}
		if read > 0 {
			r.Bandwidth = r.Bytes / r.Median / read
		}
		if peak > 0 {
			r.Peak = r.Flops / r.Median / peak
		}
		print(r)
		results = append(results, r)
		return nil
	}
	for _, shape := range [][2]int{{2048, 2048}, {6144, 2048}, {2048, 6144}} {
		for _, rows := range []int{1, 2, 4, 8, 32, 512} {
			suffix := fmt.Sprintf(" %dx%d rows %d", shape[0], shape[1], rows)
			for _, f := range formats {
				err := measure(f.name+suffix, rows <= 8, func(name string) (result, error) {
					return p.measure(name, f, shape[0], shape[1], rows)
				})
				if err != nil {
					return results, err
				}
			}
			for _, f := range panelFormats {
				err := measure(f.name+suffix, rows <= 8, func(name string) (result, error) {
					return p.measurePanels(name, f, shape[0], shape[1], rows), nil
				})
				if err != nil {
					return results, err
				}
			}
		}
	}
	for _, rows := range []int{1, 32, 512} {
		for _, f := range formats {
			err := measure(fmt.Sprintf("%s 4 of 64 experts rows %d", f.name, rows), rows == 1, func(name string) (result, error) {
				return p.measureExperts(name, f, rows)
			})
			if err != nil {
				return results, err
			}
		}
	}
	for _, context := range []int{64, 544, 2064, 8192} {
		err := measure(fmt.Sprintf("MLA decode context %d", context), true, func(name string) (result, error) {
			return p.measureAttention(name, context)
		})
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

func print(r result) {
	fmt.Printf("%-28s %9.1f us, median %9.1f: %6.1f GFLOP/s %5.1f GB/s", r.Name, r.Best*1e6, r.Median*1e6, r.GFlops, r.GBytes)
	if r.Bandwidth > 0 {
		fmt.Printf(" (%.0f %% of reading)", 100*r.Bandwidth)
	}
	if r.Peak > 0 {
		fmt.Printf(" (%.0f %% of the f32 peak)", 100*r.Peak)
	}
	fmt.Printf(", best %.1f GFLOP/s, %d times\n", r.Flops/r.Best/1e9, r.Reps)
}

// repeat times f with operand 0, 1, ... n-1 and over again until the time is spent,
// and returns the best, the median and how often it ran.
func repeat(n int, f func(i int)) (best, median float64, reps int) {
	for i := range min(n, 8) {
		f(i)
	}
	var times []float64
	for start := time.Now(); len(times) < 5 || time.Since(start).Seconds() < *secs; {
		t := time.Now()
		f(len(times) % n)
		times = append(times, time.Since(t).Seconds())
	}
	slices.Sort(times)
	return times[0], times[len(times)/2], len(times)
}
