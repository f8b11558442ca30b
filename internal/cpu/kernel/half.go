package kernel

import (
	"encoding/binary"
	"math"
)

// decodeF16 is the plain Go twin of DecodeF16.
func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = halfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// halfToFloat converts an IEEE half: 1 sign, 5 exponent and 10 mantissa bits.
func halfToFloat(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, int(h>>10&31), uint32(h&1023)
	switch exp {
	case 0: // zero or subnormal: man * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(man)*0x1p-24))
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | man<<13)
	}
	return math.Float32frombits(sign | uint32(exp+127-15)<<23 | man<<13)
}

// floatToHalf converts to the nearest IEEE half, ties to even; what is too large
// becomes infinite.
func floatToHalf(x float32) uint16 {
	sign := uint16(math.Float32bits(x)>>16) & 0x8000
	v := math.Abs(float64(x))
	switch {
	case v != v:
		return sign | 0x7e00
	case v >= 65520:
		return sign | 0x7c00
	case v < 0x1p-14: // subnormal: steps of 2^-24
		return sign | uint16(math.RoundToEven(v*0x1p24))
	}
	fraction, exp := math.Frexp(v) // v = fraction * 2^exp, fraction in [0.5, 1)
	man := math.RoundToEven(fraction * 2048)
	return sign + uint16(exp+13)<<10 + uint16(man) // man is 1024 to 2048: its carry is the exponent's
}
