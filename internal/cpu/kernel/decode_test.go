package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// Every code of FP8 E4M3 against the format's definition, at every place of a
// step, with scales that round and scales whose products are subnormal.
func TestDecodeF8EveryCode(t *testing.T) {
	value := func(code byte) float64 {
		sign := 1 - 2*float64(code>>7)
		exp, man := int(code>>3&15), float64(code&7)
		switch {
		case exp == 15 && man == 7:
			return math.NaN()
		case exp == 0:
			return sign * math.Ldexp(man, -9)
		}
		return sign * math.Ldexp(8+man, exp-10)
	}
	for _, scale := range []float32{1, 1.0 / 3, -7.3e-5, 1.7e30, 3e-40, 0x1p-149} {
		for shift := range 45 {
			src := make([]byte, 256+shift)
			for i := range src {
				src[i] = byte(i - shift)
			}
			// In pieces, because one NaN sends a whole piece to plain Go.
			for from := 0; from < len(src); from += 37 {
				to := min(len(src), from+37+shift)
				dst, intact := banded(t, to-from, shift%5, float32(poisonFloat))
				DecodeF8(dst, readable(t, src[from:to]), scale)
				intact()
				for i, got := range dst {
					want := float32(value(src[from+i])) * scale
					if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
						t.Fatalf("code %#02x at %d with scale %g: %g, want %g", src[from+i], i, scale, got, want)
					}
				}
			}
		}
	}
}

// A group of rows is its rows, block by block.
func TestDecodeGroupF8(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for k := StepF8; k < 600; k += StepF8 {
		for _, withNaN := range []bool{false, true} {
			for _, s := range []Scales{{BlockStep: 1}, {RowStep: 1}} {
				stride, dstStride := k+7, k+3
				src := make([]byte, (Rows-1)*stride+k)
				for i := range src {
					for src[i] = byte(r.Uint32()); src[i]&0x7f == 0x7f; src[i] = byte(r.Uint32()) {
					}
				}
				if withNaN {
					src[r.IntN(Rows)*stride+r.IntN(k)] = 0xff
				}
				src = readable(t, src)
				s.Values = readable(t, random(r, make([]float32, s.RowStep*(Rows-1)+s.BlockStep*((k-1)/ScaleBlock)+1)))
				dst, intact := banded(t, (Rows-1)*dstStride+k, 1, float32(poisonFloat))
				DecodeGroupF8(dst, dstStride, src, stride, s, k)
				intact()
				for at, got := range dst {
					row, i := at/dstStride, at%dstStride
					if i >= k {
						if got != poisonFloat {
							t.Fatalf("k=%d: element %d beyond row %d was written", k, i, row)
						}
						continue
					}
					want := e4m3[src[row*stride+i]] * s.at(row, i/ScaleBlock)
					if got != want && (got == got || want == want) {
						t.Fatalf("k=%d: element %d of row %d is %g, want %g", k, i, row, got, want)
					}
				}
			}
		}
	}
}

func TestDecodeF32(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for n := 1; n < 70; n++ {
		for shift := range 4 {
			src := make([]byte, 4*n+shift)
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			src = readable(t, src)[shift:]
			dst, intact := banded(t, n, n%7, float32(poisonFloat))
			DecodeF32(dst, src)
			intact()
			for i, got := range dst {
				if want := binary.LittleEndian.Uint32(src[4*i:]); math.Float32bits(got) != want {
					t.Fatalf("element %d of %d: %#x, want %#x", i, n, math.Float32bits(got), want)
				}
			}
		}
	}
}

func TestDecodeBF16(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for n := 1; n < 70; n++ {
		src := make([]byte, 2*n)
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		dst, intact := banded(t, n, n%7, float32(poisonFloat))
		DecodeBF16(dst, readable(t, src))
		intact()
		for i, got := range dst {
			if want := uint32(src[2*i])<<16 | uint32(src[2*i+1])<<24; math.Float32bits(got) != want {
				t.Fatalf("element %d of %d: %#x, want %#x", i, n, math.Float32bits(got), want)
			}
		}
	}
}

// Every half, at every place of a step.
func TestDecodeF16(t *testing.T) {
	for shift := range 9 {
		src := make([]byte, 2*(1<<16+shift))
		for i := range 1 << 16 {
			src[2*(i+shift)], src[2*(i+shift)+1] = byte(i), byte(i>>8)
		}
		dst, intact := banded(t, len(src)/2, shift%5, float32(poisonFloat))
		DecodeF16(dst, readable(t, src))
		intact()
		for i, got := range dst[shift:] {
			sign, exp, man := 1-2*float64(i>>15), i>>10&31, float64(i&1023)
			want := sign * math.Ldexp(1024+man, exp-25)
			switch {
			case exp == 0:
				want = sign * math.Ldexp(man, -24)
			case exp == 31 && man == 0:
				want = math.Inf(int(sign))
			case exp == 31:
				want = math.NaN()
			}
			if float64(got) != want && (got == got || want == want) {
				t.Fatalf("%#x is %g, want %g", i, got, want)
			}
		}
	}
}
