package kernel

import (
	"encoding/binary"
	"math"
)

// ScaleBlock is how many elements along k share a scale in the vendor's FP8
// layout.
const ScaleBlock = 128

// StepF8 divides the length along k that MulF8 takes.
const StepF8 = 32

// Scales are the multipliers of Rows weight rows: that of row r and block b along
// k is Values[r*RowStep+b*BlockStep].
type Scales struct {
	Values             []float32
	RowStep, BlockStep int
}

func (s Scales) at(r, block int) float32 { return s.Values[r*s.RowStep+block*s.BlockStep] }

// decodeF32 is the plain Go twin of DecodeF32.
func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// decodeBF16 is the plain Go twin of DecodeBF16.
func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// decodeF8 is the plain Go twin of DecodeF8.
func decodeF8(dst []float32, src []byte, scale float32) {
	src = src[:len(dst)]
	for i, c := range src {
		dst[i] = e4m3[c] * scale
	}
}

// decodeGroupF8 is the plain Go twin of DecodeGroupF8.
func decodeGroupF8(dst []float32, dstStride int, src []byte, stride int, s Scales, k int) {
	for r := range Rows {
		for k0 := 0; k0 < k; k0 += ScaleBlock {
			width := min(ScaleBlock, k-k0)
			decodeF8(dst[r*dstStride+k0:][:width], src[r*stride+k0:], s.at(r, k0/ScaleBlock))
		}
	}
}

// e4m3 maps the 256 codes of FP8 E4M3 "fn": 1 sign, 4 exponent (bias 7) and 3
// mantissa bits, no infinities, NaN only at 0x7f and 0xff.
var e4m3 = func() (t [256]float32) {
	for c := range t {
		exp, man := c>>3&15, float64(c&7)
		v := math.Ldexp(1+man/8, exp-7)
		switch {
		case exp == 0:
			v = math.Ldexp(man/8, -6)
		case exp == 15 && man == 7:
			v = math.NaN()
		}
		if c >= 128 {
			v = -v
		}
		t[c] = float32(v)
	}
	return t
}()
