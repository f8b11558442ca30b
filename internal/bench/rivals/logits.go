package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
)

// tolerance bounds, per file, how far our logits may be from the rival's and from
// those of f32 weights: the median over positions of |a-b| / |b|.
//
// All weights are the same numbers in every format but Q8_0, so what is left is how
// activations are rounded, and experts whose scores nearly tie.
var tolerance = map[string]float64{"bf16": 0.02, "q8_0": 0.04, "q4_0": 0.04, "q4_k": 0.04}

// ourFormat is the format of ours that a file is compared with.
var ourFormat = map[string]synthetic.Format{"bf16": synthetic.BF16, "q8_0": synthetic.Int8, "q4_0": synthetic.Int4, "q4_k": synthetic.Int4}

// comparison is how far the logits of two engines are apart at one position.
type comparison struct {
	Cosine, Relative float64
	Top1             bool // the same id is largest
}

func compare(a, b []float32) (c comparison) {
	var ab, aa, bb, dd float64
	besta, bestb := 0, 0
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb, dd = ab+x*y, aa+x*x, bb+y*y, dd+(x-y)*(x-y)
		if a[i] > a[besta] {
			besta = i
		}
		if b[i] > b[bestb] {
			bestb = i
		}
	}
	return comparison{ab / math.Sqrt(aa*bb), math.Sqrt(dd / bb), besta == bestb}
}

// summary is what is said of a pair over all positions.
type summary struct {
	Pair             string
	Cosine, Relative float64 // medians
	WorstCosine      float64
	Top1             float64 // share of positions
}

func summarise(pair string, a, b [][]float32) summary {
	s := summary{Pair: pair, WorstCosine: 1}
	var cosines, relatives []float64
	for i := range a {
		c := compare(a[i], b[i])
		cosines, relatives = append(cosines, c.Cosine), append(relatives, c.Relative)
		s.WorstCosine = min(s.WorstCosine, c.Cosine)
		if c.Top1 {
			s.Top1 += 1 / float64(len(a))
		}
	}
	slices.Sort(cosines)
	slices.Sort(relatives)
	s.Cosine, s.Relative = cosines[len(cosines)/2], relatives[len(relatives)/2]
	return s
}

func (s summary) String() string {
	return fmt.Sprintf("%-28s relative difference %.5f, cosine %.6f (medians), worst cosine %.5f, same first choice at %.0f %%",
		s.Pair, s.Relative, s.Cosine, s.WorstCosine, 100*s.Top1)
}

// compareLogits holds ours against the rival's, and both against f32 weights.
func (w workshop) compareLogits(o options) (list []summary, err error) {
	const positions = 48
	ids := someIDs(positions, 1)
	reference, err := w.logits(w.ours(o, string(synthetic.F32)), ids)
	if err != nil {
		return nil, err
	}
	say := func(pair string, a, b [][]float32) summary {
		s := summarise(pair, a, b)
		fmt.Println(s)
		list = append(list, s)
		return s
	}
	ours := map[synthetic.Format][][]float32{}
	var failed []string
	for _, file := range o.files {
		format := ourFormat[file]
		if ours[format] == nil {
			if ours[format], err = w.logits(w.ours(o, string(format)), ids); err != nil {
				return nil, err
			}
			if s := say(fmt.Sprintf("ours %s, ours f32", format), ours[format], reference); s.Relative > tolerance[file] {
				failed = append(failed, s.Pair)
			}
		}
		for _, variant := range o.variants {
			theirs, err := w.logits(w.theirs(o, variant, file), ids)
			if err != nil {
				return nil, err
			}
			say(fmt.Sprintf("%s %s, ours f32", variant, file), theirs, reference)
			if s := say(fmt.Sprintf("ours %s, %s %s", format, variant, file), ours[format], theirs); s.Relative > tolerance[file] {
				failed = append(failed, s.Pair)
			}
		}
	}
	if failed != nil {
		return list, fmt.Errorf("logits are further apart than rounding explains: %s", strings.Join(failed, "; "))
	}
	return list, nil
}

// launch starts an engine.
type launch func() (*child, error)

// logits starts an engine for one step.
func (w workshop) logits(l launch, ids []string) ([][]float32, error) {
	c, err := l()
	if err != nil {
		return nil, err
	}
	greeting, err := c.ask("")
	if err != nil {
		return nil, err
	}
	path := w.path("logits.f32")
	defer os.Remove(path)
	if _, err := c.ask("logits %s %s", path, strings.Join(ids, " ")); err != nil {
		return nil, err
	}
	if err := c.stop(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	words, err := strconv.Atoi(greeting[len(greeting)-1])
	if err != nil {
		return nil, fmt.Errorf("%s: greeting %q: %w", c.name, greeting, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) != 4*words*len(ids) {
		return nil, fmt.Errorf("%s: %d bytes of logits, want %d", c.name, len(data), 4*words*len(ids))
	}
	rows := make([][]float32, len(ids))
	for i := range rows {
		rows[i] = make([]float32, words)
		for j := range rows[i] {
			rows[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*(i*words+j):]))
		}
	}
	return rows, nil
}

// someIDs returns n ids below any vocabulary's end, spread over it.
func someIDs(n, seed int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa((seed*104729 + i*7919) % 150000)
	}
	return ids
}
