package plot

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"testing"
)

var sample = Chart{
	Title: "Tokens per second", X: "context", Y: "tok/s", LogX: true,
	Series: []Series{
		{"ours (int4)", []float64{64, 544, 2048, 1 << 20}, []float64{10.5, 9.8, 9.1, 3}},
		{"rival", []float64{64, 544, 2048}, []float64{5.9, 4.2, 2.8}},
	},
}

// Each series leaves ink of its colour, at its height.
func TestChartShowsItsSeries(t *testing.T) {
	var b bytes.Buffer
	if err := sample.Write(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	// The first point of each stands on the left edge; a larger y is higher up.
	find := func(c color.RGBA) int {
		for y := range tall {
			if img.At(left+3, y) == c {
				return y
			}
		}
		t.Fatalf("no ink of colour %v at the left edge", c)
		return 0
	}
	if a, b := find(lines[0]), find(lines[1]); a >= b {
		t.Errorf("10.5 is drawn at %d, 5.9 at %d: want it above", a, b)
	}
}

func TestBadChartsAreRefused(t *testing.T) {
	for name, c := range map[string]Chart{
		"no point": {},
		"lengths":  {Series: []Series{{"a", []float64{1}, nil}}},
		"nan":      {Series: []Series{{"a", []float64{1}, []float64{math.NaN()}}}},
		"log of 0": {LogX: true, Series: []Series{{"a", []float64{0}, []float64{1}}}},
	} {
		if err := c.Write(new(bytes.Buffer)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSteps(t *testing.T) {
	for y, want := range map[float64]float64{12.4: 2, 31: 5, 80: 10, 0.3: 0.05, 1: 0.2} {
		if got := niceStep(y); math.Abs(got-want) > 1e-9 {
			t.Errorf("step up to %g is %g, want %g", y, got, want)
		}
	}
}
