package main

import (
	"math"
	"testing"
)

func TestCompare(t *testing.T) {
	a, b := []float32{1, 2, 3}, []float32{1, 2, 3}
	if c := compare(a, b); math.Abs(c.Cosine-1) > 1e-12 || c.Relative != 0 || !c.Top1 {
		t.Errorf("equal logits: %+v", c)
	}
	b = []float32{3, 0, 0}
	c := compare(a, b)
	if want := 1 / math.Sqrt(14); math.Abs(c.Cosine-want) > 1e-6 {
		t.Errorf("cosine %g, want %g", c.Cosine, want)
	}
	if want := math.Sqrt(4+4+9) / 3; math.Abs(c.Relative-want) > 1e-6 || c.Top1 {
		t.Errorf("%+v, want a relative difference of %g and another first choice", c, want)
	}
	s := summarise("pair", [][]float32{a, a, a}, [][]float32{a, b, a})
	if s.Relative != 0 || s.WorstCosine > 0.3 || math.Abs(s.Top1-2./3) > 1e-9 {
		t.Errorf("%+v", s)
	}
}
