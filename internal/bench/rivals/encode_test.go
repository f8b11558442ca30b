package main

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
)

// decoders read a row back by the published layouts (ggml-org/ggml, ggml-common.h),
// written here from them and not from the encoders.
var decoders = map[string]func(src []byte, n int) []float64{
	"F32": func(src []byte, n int) (v []float64) {
		for i := range n {
			v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))))
		}
		return v
	},
	"BF16": func(src []byte, n int) (v []float64) {
		for i := range n {
			v = append(v, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:]))<<16)))
		}
		return v
	},
	"Q8_0": func(src []byte, n int) (v []float64) {
		for b := range n / 32 {
			block := src[34*b:]
			for i := range 32 {
				v = append(v, binary16(block)*float64(int8(block[2+i])))
			}
		}
		return v
	},
	"Q4_0": func(src []byte, n int) (v []float64) {
		for b := range n / 32 {
			block := src[18*b:]
			for i := range 32 {
				code := block[2+i%16]
				if i >= 16 {
					code >>= 4
				}
				v = append(v, binary16(block)*(float64(code&15)-8))
			}
		}
		return v
	},
	"Q4_K": func(src []byte, n int) (v []float64) {
		for b := range n / 256 {
			block := src[144*b:]
			d, m, q := binary16(block), binary16(block[2:]), block[4:16]
			for j := range 8 {
				var scale, least byte
				if j < 4 {
					scale, least = q[j]&63, q[j+4]&63
				} else {
					scale = q[j+4]&15 | q[j-4]>>6<<4
					least = q[j+4]>>4 | q[j]>>6<<4
				}
				for i := range 32 {
					code := block[16+j/2*32+i] >> (4 * (j % 2)) & 15
					v = append(v, d*float64(scale)*float64(code)-m*float64(least))
				}
			}
		}
		return v
	},
}

func binary16(b []byte) float64 {
	h := binary.LittleEndian.Uint16(b)
	sign, exponent, mantissa := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	if exponent == 0 {
		return sign * math.Ldexp(mantissa, -24)
	}
	return sign * math.Ldexp(1024+mantissa, exponent-25)
}

// Every type holds the synthetic values exactly, Q8_0 within half a step.
func TestTypesHoldTheValues(t *testing.T) {
	for _, name := range []string{"model.layers.0.mlp.up_proj.weight", "model.embed_tokens.weight"} {
		m := synthetic.MatrixOf(name, 4, 768)
		want := make([]float32, m.Cols)
		for kind, x := range types {
			for r := range m.Rows {
				m.Row(want, r)
				data := make([]byte, x.size(m.Cols))
				x.encode(data, source{m, r})
				for i, got := range decoders[kind](data, m.Cols) {
					limit := 0.0
					if kind == "Q8_0" {
						limit = 8 * 15 * synthetic.EmbeddingUnit / 127 // no step is longer; half of it, and the scale's own rounding
						if name != "model.embed_tokens.weight" {
							limit = 8 * 15 * synthetic.Unit / 127
						}
						limit *= 0.57
					}
					if math.Abs(got-float64(want[i])) > limit {
						t.Fatalf("%s, %s: row %d, element %d is %g, want %g within %g", name, kind, r, i, got, want[i], limit)
					}
				}
			}
		}
	}
}

func TestHalves(t *testing.T) {
	for _, x := range []float32{0, 1, 0.5, 15 * synthetic.Unit, 65504, 0x1p-14, 0x1p-24, 0x1.ff8p-15, 3 * 0x1p-24, 1.0009765625} {
		var b [2]byte
		binary.LittleEndian.PutUint16(b[:], half(x))
		if got := binary16(b[:]); got != float64(x) {
			t.Errorf("%g becomes %g", x, got)
		}
		if got := fromHalf(half(x)); got != x {
			t.Errorf("%g is read back as %g", x, got)
		}
	}
	// Between two halves, to the nearest, and to even from the middle.
	for x, want := range map[float32]float64{1 + 0x1p-11: 1, 1 + 3*0x1p-11: 1 + 0x1p-9, 1.9999: 2, 1.5 * 0x1p-24: 0x1p-23} {
		var b [2]byte
		binary.LittleEndian.PutUint16(b[:], half(x))
		if got := binary16(b[:]); got != want {
			t.Errorf("%g becomes %g, want %g", x, got, want)
		}
	}
}
