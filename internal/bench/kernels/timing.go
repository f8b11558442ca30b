package main

import (
	"fmt"
	"slices"
	"time"
)

// work is a product to be timed.
type work struct {
	name         string
	bytes, flops float64
	memory       bool              // what binds it; otherwise arithmetic
	operands     int               // that take turns, so that they come from memory
	run          func(i int) error // with operand i
	chain        int               // of products that one run is, each with the next operand
}

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
	Read      float64 // GB/s that memory gave in between, by the median; 0 where it does not bind
	Peak      float64 // f32 GFLOP/s that the processor gave in between; 0 where memory binds
	Bandwidth float64 // share of Read
	OfPeak    float64 // share of Peak
}

// A batch of repetitions is about as long as a scheduler's slice, so that product
// and machine are measured by turns under the same conditions. What wakes threads,
// the first of a batch, is not counted where a batch has more.
const (
	batchSeconds = 2e-3
	maxBatch     = 16
	readBytes    = 8 << 20
)

// measure times w and what binds it by turns.
func (p *products) measure(w work) (r result, err error) {
	r = result{Name: w.name, Threads: *threads, Bytes: w.bytes, Flops: w.flops}
	var times, machine []float64
	next := 0
	once := func() (float64, error) {
		start := time.Now()
		err := w.run(next % w.operands)
		next++
		return time.Since(start).Seconds() / float64(w.chain), err
	}
	estimate := 0.0
	for range min(w.operands, 8) {
		if estimate, err = once(); err != nil {
			return r, err
		}
	}
	batch := max(1, min(maxBatch, int(batchSeconds/estimate)/w.chain))
	for start := time.Now(); len(times) < 5 || time.Since(start).Seconds() < *secs; {
		machine = append(machine, p.machine(w.memory)...)
		for i := range batch {
			took, err := once()
			if err != nil {
				return r, err
			}
			if i > 0 || batch == 1 {
				times = append(times, took)
			}
		}
	}
	slices.Sort(times)
	r.Best, r.Median, r.Reps = times[0], median(times), len(times)
	r.GFlops, r.GBytes = r.Flops/r.Median/1e9, r.Bytes/r.Median/1e9
	if rate := median(machine) / 1e9; w.memory {
		r.Read, r.Bandwidth = rate, r.GBytes/rate
	} else if rate > 0 {
		r.Peak, r.OfPeak = rate, r.GFlops/rate
	}
	return r, nil
}

// machine returns rates per second: of reading, elsewhere than the next products do,
// or of arithmetic.
func (p *products) machine(memory bool) (rates []float64) {
	p.crew.muster()
	defer p.crew.dismiss()
	const turns = 8
	for i := range turns {
		start := time.Now()
		var amount float64
		if memory {
			data := p.probe.Bytes()
			amount = p.crew.read(data[p.probed:][:readBytes])
			p.probed = (p.probed + readBytes) % len(data)
		} else {
			amount = p.crew.multiply()
		}
		if took := time.Since(start).Seconds(); i > 0 {
			rates = append(rates, amount/took)
		}
	}
	return rates
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func print(r result) {
	fmt.Printf("%-28s %9.1f us, median %9.1f: %6.1f GFLOP/s %5.1f GB/s", r.Name, r.Best*1e6, r.Median*1e6, r.GFlops, r.GBytes)
	if r.Read > 0 {
		fmt.Printf(" (%.0f %% of reading %.1f)", 100*r.Bandwidth, r.Read)
	}
	if r.Peak > 0 {
		fmt.Printf(" (%.0f %% of the f32 peak %.0f)", 100*r.OfPeak, r.Peak)
	}
	fmt.Printf(", best %.1f GFLOP/s, %d times\n", r.Flops/r.Best/1e9, r.Reps)
}
