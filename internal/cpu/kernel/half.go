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
	b := math.Float32bits(x)
	sign := uint16(b>>16) & 0x8000
	b &= 1<<31 - 1
	switch {
	case b > 0xff<<23: // NaN
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520
		return sign | 0x7c00
	case b < 113<<23: // below 2^-14: a half has steps of 2^-24, as f32 has from 0.5 on
		const from = 0x1p-1
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+from)-126<<23)
	}
	b += 1<<12 - 1 + b>>13&1
	return sign | uint16((b-112<<23)>>13)
}
