package oracle

import (
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// The numbers in this file were worked out by hand, so that the reference is
// not its own judge.

func near(t *testing.T, what string, have, want float64) {
	t.Helper()
	if math.IsNaN(have) || math.Abs(have-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s = %.12g, want %.12g", what, have, want)
	}
}

func nearAll(t *testing.T, what string, have, want []float64) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("%s has %d elements, want %d", what, len(have), len(want))
	}
	for i := range want {
		near(t, what, have[i], want[i])
	}
}

func TestE4M3(t *testing.T) {
	for code, want := range map[byte]float32{
		0x00: 0,
		0x01: 1.0 / 512, // smallest subnormal
		0x07: 7.0 / 512, // largest subnormal
		0x08: 1.0 / 64,  // smallest normal
		0x37: 0.9375,
		0x38: 1,
		0x39: 1.125,
		0x40: 2,
		0x78: 256,
		0x7e: 448,
		0xb8: -1,
		0xfe: -448,
	} {
		if have := decodeE4M3(code); have != want {
			t.Errorf("e4m3 %#02x = %g, want %g", code, have, want)
		}
	}
	for _, code := range []byte{0x7f, 0xff} {
		if have := decodeE4M3(code); have == have {
			t.Errorf("e4m3 %#02x = %g, want NaN", code, have)
		}
	}
	if minus := decodeE4M3(0x80); minus != 0 || !math.Signbit(float64(minus)) {
		t.Errorf("e4m3 0x80 = %g, want -0", minus)
	}
}

func TestF16(t *testing.T) {
	for code, want := range map[uint16]float32{
		0x0001: 0x1p-24,
		0x03ff: 1023 * 0x1p-24,
		0x0400: 0x1p-14,
		0x3555: 0.333251953125,
		0x3c00: 1,
		0x7bff: 65504,
		0x7c00: float32(math.Inf(1)),
		0xc000: -2,
		0xfc00: float32(math.Inf(-1)),
	} {
		if have := decodeF16(code); have != want {
			t.Errorf("f16 %#04x = %g, want %g", code, have, want)
		}
	}
	if have := decodeF16(0x7e00); have == have {
		t.Errorf("f16 0x7e00 = %g, want NaN", have)
	}
}

func TestBF16RoundsToNearestEven(t *testing.T) {
	for value, want := range map[float32]uint16{
		1:                           0x3f80,
		1 + 0x1p-8:                  0x3f80, // halfway, down to even
		1 + 3*0x1p-8:                0x3f82, // halfway, up to even
		1 + 0x1p-8 + 0x1p-20:        0x3f81,
		-1 - 3*0x1p-8:               0xbf82,
		math.MaxFloat32:             0x7f80, // rounds to infinity
		float32(math.Inf(-1)):       0xff80,
		math.SmallestNonzeroFloat32: 0,
	} {
		if have := encodeBF16(value); have != want {
			t.Errorf("bf16(%g) = %#04x, want %#04x", value, have, want)
		}
	}
	// A NaN whose payload lies in the dropped bits must not become an infinity.
	if have := decodeBF16(encodeBF16(math.Float32frombits(0x7f800001))); have == have {
		t.Errorf("bf16(NaN) = %g", have)
	}
}

func TestScales(t *testing.T) {
	one := make([]byte, 130*129)
	for i := range one {
		one[i] = 0x38
	}
	block := backend.View{Name: "block", Rows: 130, Cols: 129, DType: backend.F8E4M3, Data: one, Scales: backend.ScalesOf(2, 2, 2, 3, 5, 7)}
	w, err := dequantise(block)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		row, col int
		want     float64
	}{{0, 0, 2}, {127, 127, 2}, {0, 128, 3}, {127, 128, 3}, {128, 0, 5}, {129, 127, 5}, {129, 128, 7}} {
		near(t, "block scale", w.At(c.row, c.col), c.want)
	}

	perRow := backend.View{Name: "row", Rows: 2, Cols: 1, DType: backend.F8E4M3, Data: []byte{0x38, 0x40}, Scales: backend.ScalesOf(2, 1, 10, 100)}
	w, err = dequantise(perRow)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "row scale", w.At(0, 0), 10)
	near(t, "row scale", w.At(1, 0), 200)
}

func TestNorms(t *testing.T) {
	// mean(3^2, 4^2) = 12.5; with eps 12.5 the root is 5.
	nearAll(t, "RMSNorm", rmsNorm([]float64{3, 4}, []float64{2, 10}, 12.5), []float64{1.2, 8})
	// mean 2, variance 1; with eps 3 the root is 2.
	nearAll(t, "LayerNorm", layerNorm([]float64{1, 3}, []float64{4, 6}, []float64{0.5, -1}, 3), []float64{-1.5, 2})
}

func TestRope(t *testing.T) {
	// theta 4^10 over 4 dims: frequencies 1 and 2^-10, angles 2 and 2/1024.
	rope := backend.Rope{Dim: 4, Theta: 1 << 20}
	const (
		cos0, sin0 = -0.41614683654714241, 0.90929742682568171
		cos1, sin1 = 0.99999809265197299, 0.0019531237582368
	)
	x := []float64{1, 0, 0, 1}
	ropeInterleaved(x, rope, 2)
	nearAll(t, "interleaved", x, []float64{cos0, sin0, -sin1, cos1})

	x = []float64{1, 0, 0, 1} // pairs (x0, x2) and (x1, x3)
	ropeHalfSplit(x, rope, 2)
	nearAll(t, "half-split", x, []float64{cos0, -sin1, sin0, cos1})
}

func TestAngleIsF32(t *testing.T) {
	// 100^(-2/4) does not fit f32: float32(0.1) = 0.100000001490116. Its product
	// with 1,000,003 is 100000.3015 and the nearest f32 is 100000.3046875.
	near(t, "angle", angle(backend.Rope{Dim: 4, Theta: 100}, 1_000_003, 1), 100000.3046875)
}

func TestSoftmax(t *testing.T) {
	nearAll(t, "softmax", softmax([]float64{1000, 1000 + math.Ln2, math.Inf(-1)}), []float64{1.0 / 3, 2.0 / 3, 0})
	nearAll(t, "log softmax", logSoftmax([]float64{5, 5, 5, 5}), []float64{-2 * math.Ln2, -2 * math.Ln2, -2 * math.Ln2, -2 * math.Ln2})
}

func TestLargest(t *testing.T) {
	nan, minusZero := math.NaN(), math.Copysign(0, -1)
	have := largest([]float64{minusZero, nan, 0, 3, math.Inf(1), 3, math.Inf(-1)}, 6)
	want := []int{4, 3, 5, 0, 2, 6}
	if len(have) != len(want) {
		t.Fatalf("largest = %v, want %v", have, want)
	}
	for i := range want {
		if have[i] != want[i] {
			t.Fatalf("largest = %v, want %v", have, want)
		}
	}
}

func TestExpertWeights(t *testing.T) {
	nearAll(t, "renormed", expertWeights([]float64{0.5, 0.25, 0.75}, []int{2, 1}, true, 2), []float64{1.5, 0.5})
	nearAll(t, "plain", expertWeights([]float64{0.5, 0.25, 0.75}, []int{2, 1}, false, 2), []float64{1.5, 0.5})
	nearAll(t, "plain", expertWeights([]float64{0.5, 0.25, 0.75}, []int{0, 1}, false, 3), []float64{1.5, 0.75})
}

func TestDraw(t *testing.T) {
	// Probabilities 1/8, 1/2, 1/4, 1/8: in order of draw ids 1, 2, 0, 3.
	l := []float64{0, 2 * math.Ln2, math.Ln2, 0}
	for _, c := range []struct {
		name string
		s    backend.Sampling
		want int
	}{
		{"u just below the first", backend.Sampling{Temperature: 1, U: 0.4999}, 1},
		{"u just above the first", backend.Sampling{Temperature: 1, U: 0.5001}, 2},
		{"equal p by lower id", backend.Sampling{Temperature: 1, U: 0.76}, 0},
		{"the last", backend.Sampling{Temperature: 1, U: 0.99}, 3},
		{"top-k 2 leaves 2/3 and 1/3", backend.Sampling{Temperature: 1, TopK: 2, U: 0.66}, 1},
		{"top-k 2", backend.Sampling{Temperature: 1, TopK: 2, U: 0.67}, 2},
		{"top-p 0.6 leaves two", backend.Sampling{Temperature: 1, TopP: 0.6, U: 0.99}, 2},
		{"top-p of the 2/3 that top-k leaves", backend.Sampling{Temperature: 1, TopK: 2, TopP: 0.6, U: 0.99}, 1},
		{"min-p 0.4 leaves two", backend.Sampling{Temperature: 1, MinP: 0.4, U: 0.99}, 2},
		{"temperature 1/2 squares: 4/7 of 16/4/1/1 over 22", backend.Sampling{Temperature: 0.5, U: 0.72}, 1},
		{"temperature 1/2", backend.Sampling{Temperature: 0.5, U: 0.74}, 2},
	} {
		if have := draw(l, &c.s); have != c.want {
			t.Errorf("%s: drew %d, want %d", c.name, have, c.want)
		}
	}
}

func TestAdjust(t *testing.T) {
	l := []float64{4, -4, 1, 8}
	adjust(l, &backend.Sampling{
		Repetition: 2, Presence: 1, Frequency: 0.5,
		Counts: []backend.TokenCount{{ID: 0, Count: 3}, {ID: 1, Count: 1}},
		Bias:   []backend.TokenBias{{ID: 1, Bias: 10}, {ID: 2, Bias: -1}},
		Mask:   []uint64{0b0111},
	})
	nearAll(t, "adjusted", l[:3], []float64{4.0/2 - 1 - 1.5, -4*2 - 1 - 0.5 + 10, 0})
	if !math.IsInf(l[3], -1) {
		t.Errorf("a masked id has logit %g", l[3])
	}
}
