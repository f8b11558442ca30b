package main

import (
	"fmt"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/bench/machine"
)

// A result is what was measured of one case: medians over all repetitions.
type result struct {
	Case    string
	Batch   int // sequences
	Rows    int // of each
	Context int // positions of each once the rows are written

	Reps    int
	Best    float64 // seconds
	Seconds float64
	Tokens  float64 // per second: rows of all sequences

	WeightBytes, KeyBytes, Flops float64
	Experts                      int // distinct ones read, over all layers

	Read      float64 // bytes per second that memory gave beside it
	Peak      float64 // f32 operations per second beside it
	Bandwidth float64 // share of Read
	OfPeak    float64 // share of Peak
	Busy      machine.Busy
}

// testCase is a step of some program.
type testCase struct {
	name                 string
	batch, rows, context int
	program              backend.Program
	before               backend.Program // what leaves the operands behind; may be nil

	times, read, peak []float64
	cost              []cost
	busy              machine.Busy
}

// measure runs the cases in rounds, one after another in each, and spends about secs
// on a case each time. Every repetition has tokens of its own.
func (m *model) measure(meter *machine.Meter, cases []*testCase, rounds int, secs float64) ([]result, error) {
	for round := range rounds {
		for _, c := range cases {
			c.read = append(c.read, meter.Read())
			c.peak = append(c.peak, meter.Peak())
			watch := machine.Watch()
			if err := m.repeat(c, secs); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			c.busy = watch.Stop()
			if round == rounds-1 {
				print(c.result())
			}
		}
	}
	var list []result
	for _, c := range cases {
		list = append(list, c.result())
	}
	return list, nil
}

// repeat measures a case for some seconds, twice at least.
func (m *model) repeat(c *testCase, secs float64) error {
	for n, start := 0, time.Now(); n < 2 || time.Since(start).Seconds() < secs; n++ {
		s := m.step(c.batch, c.rows, c.context)
		if c.before != nil {
			if _, err := m.run(c.before, s); err != nil {
				return err
			}
		}
		took, err := m.run(c.program, s)
		if err != nil {
			return err
		}
		c.times = append(c.times, took)
		c.cost = append(c.cost, m.cost(c.program, s))
	}
	return nil
}

func (c *testCase) result() result {
	r := result{Case: c.name, Batch: c.batch, Rows: c.rows, Context: c.context, Reps: len(c.times), Busy: c.busy}
	experts := 0
	for _, k := range c.cost {
		r.WeightBytes += k.Weights / float64(len(c.cost))
		r.KeyBytes += k.Keys / float64(len(c.cost))
		r.Flops += k.Flops / float64(len(c.cost))
		experts += k.Experts
	}
	r.Experts = experts / len(c.cost)
	r.Seconds = machine.Median(c.times)
	r.Best = c.times[0] // Median sorts
	r.Tokens = float64(c.batch*c.rows) / r.Seconds
	r.Read, r.Peak = machine.Median(c.read), machine.Median(c.peak)
	r.Bandwidth = (r.WeightBytes + r.KeyBytes) / r.Seconds / r.Read
	if r.Peak > 0 {
		r.OfPeak = r.Flops / r.Seconds / r.Peak
	}
	return r
}

func print(r result) {
	fmt.Printf("%-30s %9.2f ms (best %.2f, %d times) %8.2f tok/s | %7.1f MB weights, %6.1f MB keys, %7.2f GFLOP, %d experts | %5.1f GB/s, %3.0f %% of reading; %6.1f GFLOP/s, %3.0f %% of the f32 peak\n",
		r.Case, r.Seconds*1e3, r.Best*1e3, r.Reps, r.Tokens, r.WeightBytes/1e6, r.KeyBytes/1e6, r.Flops/1e9, r.Experts,
		(r.WeightBytes+r.KeyBytes)/r.Seconds/1e9, 100*r.Bandwidth, r.Flops/r.Seconds/1e9, 100*r.OfPeak)
	fmt.Printf("%-30s %v\n", "", r.Busy)
}
