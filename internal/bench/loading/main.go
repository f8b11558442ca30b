// Command loading measures what opening a model costs whose weights are converted:
// the first time, when the checkpoint is read and converted and the cache written,
// and later, when the cache is read. The files are dropped from memory before each
// run, and the disk's own speed is measured beside it by a loop that only reads.
//
//	go run ./internal/bench/loading -dir DIR
//
// writes a checkpoint of GLM-4.7-Flash's shape with random weights to DIR, unless one is
// there: the dense layer and two sparse ones (3.9 GB), or as many layers as -layers
// says. Linux only: elsewhere nothing drops files from memory. RESULT.md has runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/bench/machine"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

func main() {
	dir := flag.String("dir", "", "where the checkpoint is, or is to be written, and the cache, a third as large")
	layers := flag.Int("layers", 3, "layers of the checkpoint, 1.3 GB each")
	runs := flag.Int("runs", 3, "runs; medians are printed")
	readers := flag.Int("readers", 2, "goroutines of the loop that only reads")
	int8s := flag.Bool("int8", false, "convert to int8 instead of int4")
	flag.Parse()
	if *dir == "" {
		flag.Usage()
		os.Exit(2)
	}
	w := glm.Int4
	if *int8s {
		w = glm.Int8
	}
	if err := run(*dir, w, *layers, *runs, *readers); err != nil {
		log.Fatal(err)
	}
}

// figures are what one way of loading cost, by run.
type figures struct {
	seconds, processor []float64
	peak               int64 // most resident memory, mapped files included
}

func median(x []float64) float64 { return machine.Median(slices.Clone(x)) }

func run(dir string, w glm.Weights, layers, runs, readers int) error {
	model, cache := filepath.Join(dir, "model"), filepath.Join(dir, "cache")
	if _, err := os.Stat(filepath.Join(model, "config.json")); err != nil {
		if err := write(model, layers); err != nil {
			return err
		}
	}
	var readModel, readCache, first, later figures
	for range runs {
		if err := os.RemoveAll(cache); err != nil {
			return err
		}
		for _, step := range []struct {
			to   *figures
			what func() error
		}{
			{&readModel, func() error { return readAll(model, readers) }},
			{&first, func() error { return open(model, cache, w) }},
			{&readCache, func() error { return readAll(cache, readers) }},
			{&later, func() error { return open(model, cache, w) }},
		} {
			if err := drop(model, cache); err != nil {
				return err
			}
			resetPeak()
			start, used := time.Now(), processor()
			if err := step.what(); err != nil {
				return err
			}
			step.to.processor = append(step.to.processor, processor()-used)
			step.to.seconds = append(step.to.seconds, time.Since(start).Seconds())
			step.to.peak = max(step.to.peak, peak())
		}
	}
	source, err := size(model)
	if err != nil {
		return err
	}
	result, err := size(cache)
	if err != nil {
		return err
	}
	fmt.Printf("checkpoint %.3f GB, cache %.3f GB; medians of %d runs, files dropped from memory before each\n", gb(source), gb(result), runs)
	for _, line := range []struct {
		what  string
		f     *figures
		bytes int64
	}{
		{"read the checkpoint", &readModel, source},
		{"convert it, write the cache", &first, source},
		{"read the cache", &readCache, result},
		{"open from the cache", &later, result},
	} {
		t := median(line.f.seconds)
		fmt.Printf("%-28s %6.2f s  %5.2f GB/s  %6.2f processor-s  peak resident %5.0f MiB  %.2f\n",
			line.what, t, gb(line.bytes)/t, median(line.f.processor), mib(line.f.peak), line.f.seconds)
	}
	fmt.Printf("peak resident beyond the result (%.0f MiB): %.0f MiB converting, %.0f MiB reading\n",
		mib(result), mib(first.peak-result), mib(later.peak-result))
	return nil
}

func gb(n int64) float64  { return float64(n) / 1e9 }
func mib(n int64) float64 { return float64(n) / (1 << 20) }

// open opens the model and closes it.
func open(model, cache string, w glm.Weights) error {
	m, err := glm.Open(context.Background(), model, glm.Config{Weights: w, WeightsCache: cache})
	if err != nil {
		return err
	}
	return m.Close()
}

// each calls f with every file of some directories that are there.
func each(f func(f *os.File, size int64) error, dirs ...string) error {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		for _, e := range entries {
			file, err := os.Open(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			fi, err := file.Stat()
			if err == nil {
				err = f(file, fi.Size())
			}
			file.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// size returns the bytes of a directory's files.
func size(dir string) (total int64, err error) {
	err = each(func(_ *os.File, n int64) error { total += n; return nil }, dir)
	return total, err
}

// drop forces files to disk and takes them out of memory.
func drop(dirs ...string) error {
	return each(func(f *os.File, n int64) error {
		if err := f.Sync(); err != nil {
			return err
		}
		offheap.ForgetFile(f, 0, n)
		return nil
	}, dirs...)
}

// readAll reads files in order with several goroutines, a piece each in turn.
func readAll(dir string, readers int) error {
	const piece = 8 << 20
	return each(func(f *os.File, n int64) error {
		next, errs := make(chan int64), make(chan error, readers)
		for range readers {
			go func() {
				buf := make([]byte, piece)
				var failed error
				for at := range next {
					if _, err := f.ReadAt(buf[:min(piece, n-at)], at); err != nil && err != io.EOF {
						failed = err
					}
				}
				errs <- failed
			}()
		}
		for at := int64(0); at < n; at += piece {
			next <- at
		}
		close(next)
		var err error
		for range readers {
			if e := <-errs; e != nil {
				err = e
			}
		}
		return err
	}, dir)
}

// processor returns the seconds that this process has used of the processors, 0
// where they are unknown.
func processor() float64 {
	text, _ := os.ReadFile("/proc/self/stat")
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // ticks, on every system that Go runs on
}

// resetPeak has the kernel forget the largest resident size so far.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peak returns the largest resident size since resetPeak, 0 where it is unknown.
func peak() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib int64
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
