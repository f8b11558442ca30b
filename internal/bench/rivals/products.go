package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/bench/machine"
	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
)

// shape is a product [rows, K] x [N, K], or with experts a block of gate, up [N, K]
// and down [K, N] of which each row uses some.
type shape struct{ n, k, experts, used int }

func (s shape) String() string {
	if s.experts > 0 {
		return fmt.Sprintf("%d of %d experts of %dx%d", s.used, s.experts, s.n, s.k)
	}
	return fmt.Sprintf("%dx%d", s.n, s.k)
}

var shapes = []shape{{n: 2048, k: 2048}, {n: 6144, k: 2048}, {n: 2048, k: 6144}, {1536, 2048, 64, 4}}

// pairings are our formats and what of the rival's each is measured beside.
var pairings = []struct {
	ours   synthetic.Format
	theirs []rivalType
}{
	{synthetic.Int4, []rivalType{{"Q4_0", false}, {"Q4_0", true}, {"Q4_K", false}, {"Q4_K", true}}},
	{synthetic.Int8, []rivalType{{"Q8_0", false}}},
	{synthetic.BF16, []rivalType{{"BF16", false}}},
	{synthetic.F32, []rivalType{{"F32", false}}},
}

// rivalType is a type of the rival's, and whether its weights are interleaved when
// they are loaded.
type rivalType struct {
	name   string
	repack bool
}

func (t rivalType) String() string {
	if t.repack {
		return t.name + "+repack"
	}
	return t.name
}

// contender is one engine with one format of weights for a case.
type contender struct {
	Name   string
	Best   float64 // seconds of a product, or of a block of experts
	Median float64
	GFlops float64 // by the median
	GBytes float64 // of weights, at few rows: what memory must give, by the median
	Bytes  float64 // weights of a product

	count int // products of a step
	step  func(reps int) ([]float64, error)
	reps  int
	times []float64
}

// productCase is the outcome of one shape, number of rows and format.
type productCase struct {
	Name   string
	Rows   int
	Ours   *contender
	Rivals []*contender
	Read   float64            // bytes per second that memory gave in the same minutes
	Peak   float64            // f32 operations per second
	Share  float64            // of Read, that ours reads; 0 where memory does not bind
	Ratios map[string]float64 // ours over the best type of each build of the rival, in products per second, by medians
	Bests  map[string]float64 // the same by the best repetitions: what a busy host disturbs least
	Busy   machine.Busy
}

func (w workshop) compareProducts(o options) (list []*productCase, err error) {
	meter, err := machine.NewMeter(o.threads)
	if err != nil {
		return nil, err
	}
	defer meter.Close()
	for _, s := range shapes {
		for _, rows := range o.rows {
			for _, p := range pairings {
				c := &productCase{Name: fmt.Sprintf("%s %s rows %d", p.ours, s, rows), Rows: rows}
				if !strings.Contains(c.Name, o.only) {
					continue
				}
				if err := w.compareProduct(c, o, meter, s, p.ours, p.theirs); err != nil {
					return list, fmt.Errorf("%s: %w", c.Name, err)
				}
				fmt.Println(c)
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// count is how many weights are multiplied in turn: more than caches hold for few
// rows, whose products only read; few where arithmetic binds.
func (s shape) count(rows, bytes int) int {
	room := map[bool]int{true: 256 << 20, false: 48 << 20}[rows <= 8]
	if s.experts > 0 {
		room = 16 * bytes // choices of experts
	}
	if rows > 32 {
		room = 0
	}
	return max(2, room/bytes)
}

// compareProduct measures one case: the engines take turns, and between them memory
// is read.
func (w workshop) compareProduct(c *productCase, o options, meter *machine.Meter, s shape, format synthetic.Format, theirs []rivalType) error {
	ours, err := newOurs(s, c.Rows, format, o.threads)
	if err != nil {
		return err
	}
	defer ours.close()
	c.Ours = &contender{Name: "ours " + string(format), count: ours.count, Bytes: float64(ours.bytes), step: ours.step}
	all := []*contender{c.Ours}
	var pids []int
	for _, variant := range o.variants {
		for _, t := range theirs {
			process, err := start(variant, w.path("products"), w.libraries(), variant, strconv.Itoa(o.threads))
			if err != nil {
				return err
			}
			defer process.stop()
			pids = append(pids, process.pid())
			r, err := newRival(process, t, s, c.Rows, ours.bytes)
			if err != nil {
				return err
			}
			c.Rivals = append(c.Rivals, r)
			all = append(all, r)
		}
	}
	var read, peak []float64
	watch := machine.Watch(pids...)
	for round := range o.rounds + 1 {
		read = append(read, meter.Read())
		peak = append(peak, meter.Peak())
		for _, e := range all {
			// Threads of the last engine may still spin.
			time.Sleep(5 * time.Millisecond)
			if err := e.turn(round == 0, o.secs); err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
		}
	}
	c.Busy = watch.Stop()
	c.Read, c.Peak = machine.Median(read), machine.Median(peak)
	flops := 2 * float64(c.Rows) * float64(s.n) * float64(s.k)
	if s.experts > 0 {
		flops *= float64(3 * s.used)
	}
	for _, e := range all {
		e.finish(flops)
	}
	if c.Rows <= 8 && s.experts == 0 || c.Rows == 1 {
		c.Share = c.Ours.Bytes / c.Ours.Median / c.Read
	}
	c.Ratios, c.Bests = map[string]float64{}, map[string]float64{}
	for _, r := range c.Rivals {
		variant, _, _ := strings.Cut(r.Name, " ")
		least(c.Ratios, variant, r.Median/c.Ours.Median)
		least(c.Bests, variant, r.Best/c.Ours.Best)
	}
	return nil
}

// least keeps the smaller value of a key.
func least(m map[string]float64, key string, v float64) {
	if old, ok := m[key]; !ok || v < old {
		m[key] = v
	}
}

// turn runs an engine for some seconds; the first turn only finds out how often.
func (e *contender) turn(first bool, secs float64) error {
	times, err := e.step(max(1, e.reps))
	if err != nil {
		return err
	}
	if first {
		e.reps = int(secs / times[0])
		return nil
	}
	for _, t := range times {
		e.times = append(e.times, t/float64(e.count))
	}
	return nil
}

func (e *contender) finish(flops float64) {
	e.Median = machine.Median(e.times)
	e.Best = e.times[0] // Median sorts
	e.GFlops, e.GBytes = flops/e.Median/1e9, e.Bytes/e.Median/1e9
}

func (c *productCase) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-44s %7.1f GFLOP/s", c.Name, c.Ours.GFlops)
	if c.Share > 0 {
		fmt.Fprintf(&b, " (%.1f GB/s, %.0f %% of reading's %.1f)", c.Ours.GBytes, 100*c.Share, c.Read/1e9)
	} else {
		fmt.Fprintf(&b, " (%.0f %% of the f32 peak, %.0f)", 100*c.Ours.GFlops*1e9/c.Peak, c.Peak/1e9)
	}
	for _, r := range c.Rivals {
		fmt.Fprintf(&b, "; %s %.1f", r.Name, r.GFlops)
	}
	for _, variant := range slices.Sorted(maps.Keys(c.Ratios)) {
		fmt.Fprintf(&b, "; over %s %.2f (best over best %.2f)", variant, c.Ratios[variant], c.Bests[variant])
	}
	fmt.Fprintf(&b, "\n%-44s %v", "", c.Busy)
	return b.String()
}

// newRival prepares a case in a process of the rival's.
func newRival(c *child, t rivalType, s shape, rows, ours int) (*contender, error) {
	repack := map[bool]int{true: 1}[t.repack]
	count := s.count(rows, ours)
	command := fmt.Sprintf("dense %s %d %d %d %d %d", t.name, repack, s.n, s.k, rows, count)
	if s.experts > 0 {
		command = fmt.Sprintf("sparse %s %d %d %d %d %d %d %d", t.name, repack, s.n, s.k, rows, count, s.experts, s.used)
	}
	answer, err := c.ask("%s", command)
	if err != nil {
		return nil, err
	}
	if len(answer) != 3 || answer[0] != "ok" {
		return nil, fmt.Errorf("%s: answer %q", c.name, answer)
	}
	bytes, err := strconv.ParseFloat(answer[1], 64)
	if err != nil {
		return nil, fmt.Errorf("%s: answer %q: %w", c.name, answer, err)
	}
	if off, err := strconv.ParseFloat(answer[2], 64); err != nil || !(off < 0.01) {
		return nil, fmt.Errorf("%s %s: a product is wrong by %s of the vectors' lengths", c.name, t, answer[2])
	}
	if s.experts > 0 {
		bytes *= float64(min(s.used*rows, s.experts)) / float64(s.experts)
	} else {
		bytes /= float64(count)
	}
	return &contender{Name: c.name + " " + t.String(), Bytes: bytes, count: count, step: func(reps int) ([]float64, error) {
		return c.seconds("run %d", reps)
	}}, nil
}
