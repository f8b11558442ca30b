// Command realshape loads a model of GLM-5.3's true layer shapes and runs a
// prompt that is longer than its indexer's top-k.
//
// It has one dense and one sparse layer; the first runs its indexer, the second
// reuses the selection. The weights are synthetic FP8 blocks, about 14 GB, which
// the command writes to -dir unless they are there. It prints what loading cost
// the Go heap, what the process holds, and whether every logit is finite.
//
//	go run ./internal/bench/realshape -dir /var/tmp/glm53-shape
//
// Measured results are in RESULT.md beside this file.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("realshape: ")
	dir := flag.String("dir", "", "where the checkpoint is, or is to be written (14 GB)")
	tokens := flag.Int("tokens", 2112, "prompt length; the indexer keeps 2048 keys")
	chunk := flag.Int("chunk", 352, "rows of a step")
	threads := flag.Int("threads", 0, "threads; 0 means GOMAXPROCS")
	flag.Parse()
	if *dir == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, *tokens, *chunk, *threads); err != nil {
		log.Fatal(err)
	}
}

func run(dir string, tokens, chunk, threads int) error {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err != nil {
		start := time.Now()
		if err := write(dir); err != nil {
			return err
		}
		fmt.Printf("wrote the checkpoint in %v\n", time.Since(start).Round(time.Second))
	}

	before := heap()
	watch := watchHeap()
	start := time.Now()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		return err
	}
	defer ck.Close()
	b := cpu.Open(threads)
	defer b.Close()
	m, err := decoder.Load(b, ck, decoder.Options{Rows: chunk, Outs: 1})
	if err != nil {
		return err
	}
	took := time.Since(start)
	grown := max(watch(), heap()) - before
	fmt.Printf("%s\nloaded in %v; Go heap grew by %.1f MiB at most; %.2f GiB mapped outside it\n",
		b.Name(), took.Round(time.Millisecond), float64(grown)/(1<<20), float64(offheap.InUse())/(1<<30))
	if grown > heapLimit {
		return fmt.Errorf("the Go heap grew by %d bytes while loading, the limit is %d", grown, heapLimit)
	}

	const pageSize = 64
	spec := backend.PageSpec{Pages: (tokens + pageSize - 1) / pageSize, PageSize: pageSize, Format: backend.KVF32, Planes: m.Planes}
	pages, err := b.NewPages(spec)
	if err != nil {
		return err
	}
	defer pages.Close()

	table := make([]int32, spec.Pages)
	for i := range table { // descending, so that no neighbour is adjacent
		table[i] = int32(spec.Pages - 1 - i)
	}

	start = time.Now()
	for at := 0; at < tokens; at += chunk {
		if err := step(b, m, pages, table, ck.Config.Vocab, at, min(at+chunk, tokens)); err != nil {
			return err
		}
		fmt.Printf("%5d tokens, %v\n", min(at+chunk, tokens), time.Since(start).Round(time.Second))
	}
	fmt.Printf("Go heap %.1f MiB above the start; peak resident %s\n", float64(heap()-before)/(1<<20), peak())
	return nil
}

// step feeds positions [from, to) and reports the logits of the last one.
func step(b backend.Backend, m *decoder.Model, pages backend.Pages, table []int32, vocab, from, to int) error {
	s := &backend.Step{
		QStart: []int32{0, int32(to - from)}, KVLen: []int32{int32(to)}, Session: []uint64{1}, Tag: []uint64{0},
		Pages: table, PageTag: make([]uint64, len(table)), Stride: len(table),
		Out: []int32{int32(to - from - 1)}, Sampling: make([]backend.Sampling, 1),
	}
	for p := from; p < to; p++ {
		s.IDs = append(s.IDs, int32(hash(uint64(p))%uint64(vocab)))
		s.Seq = append(s.Seq, 0)
		s.Pos = append(s.Pos, int32(p))
	}
	if err := b.Start(m.Program, s, pages); err != nil {
		return err
	}
	r, err := b.Wait()
	if err != nil {
		return err
	}
	for row, h := range r.Health {
		if h != 0 {
			return fmt.Errorf("position %d is %v", from+row, h)
		}
	}
	lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, l := range b.Read(m.Logits, 1) {
		lo, hi, sum = min(lo, float64(l)), max(hi, float64(l)), sum+float64(l)*float64(l)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("position %d: logits are not finite", to-1)
	}
	fmt.Printf("      logits of position %d: finite, %.3f to %.3f, rms %.3f, greedy id %d\n", to-1, lo, hi, math.Sqrt(sum/float64(vocab)), r.ID[0])
	return nil
}

// heapLimit is what loading may add to the Go heap.
const heapLimit = 64 << 20

// heap returns the live bytes of the Go heap.
func heap() int64 {
	runtime.GC()
	return heapNow()
}

// heapNow returns the bytes of objects on the Go heap, dead ones included.
func heapNow() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// watchHeap samples the heap until the returned function is called, which tells
// the largest size seen.
func watchHeap() (largest func() int64) {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		most := heapNow()
		for {
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(time.Millisecond):
				most = max(most, heapNow())
			}
		}
	}()
	return func() int64 { close(stop); return <-peak }
}

// peak returns the kernel's high-water mark of resident memory, mapped files included.
func peak() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown on this system"
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
