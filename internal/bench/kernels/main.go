// Command kernels measures the CPU backend's products on synthetic weights.
//
// Cases run the backend's own operations, threads and all, over operands that
// together exceed the caches: products with a matrix, the routed experts and the
// attention of a layer of GLM-4.7-Flash. Each case prints the time of one product,
// the bytes and arithmetic it stands for, and their share of what the memory gave
// when it was only read, or the processor when it only multiplied f32: both are
// measured by turns with the product, within milliseconds, reading on large pages
// like the weights'. Times are the best and the median of the repetitions.
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
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

var (
	secs    = flag.Float64("secs", 0.5, "seconds per case")
	only    = flag.String("only", "", "run only the cases whose name contains one of these, separated by commas")
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

// wanted says whether the case is among those asked for.
func wanted(name string) bool {
	for part := range strings.SplitSeq(*only, ",") {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func run() (results []result, err error) {
	p, err := newProducts(*threads)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	measure := func(name string, prepare func(name string) (work, error)) error {
		if !wanted(name) {
			return nil
		}
		w, err := prepare(name)
		if err != nil {
			return err
		}
		r, err := p.measure(w)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		print(r)
		results = append(results, r)
		return nil
	}
	for _, shape := range [][2]int{{2048, 2048}, {6144, 2048}, {2048, 6144}} {
		for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 32, 512} {
			for _, f := range formats {
				err := measure(fmt.Sprintf("%s %dx%d rows %d", f.name, shape[0], shape[1], rows), func(name string) (work, error) {
					return p.matrix(name, f, shape[0], shape[1], rows)
				})
				if err != nil {
					return results, err
				}
			}
		}
	}
	for _, rows := range []int{1, 32, 512} {
		for _, f := range formats {
			err := measure(fmt.Sprintf("%s 4 of 64 experts rows %d", f.name, rows), func(name string) (work, error) {
				return p.experts(name, f, rows)
			})
			if err != nil {
				return results, err
			}
		}
	}
	for _, f := range []format{formats[bf16], formats[int8s]} {
		for _, context := range []int{64, 544, 2064, 8192} {
			err := measure(fmt.Sprintf("MLA decode %s context %d", f.name, context), func(name string) (work, error) {
				return p.attention(name, f, context)
			})
			if err != nil {
				return results, err
			}
		}
	}
	return results, nil
}
