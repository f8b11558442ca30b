package main

import (
	"encoding/binary"
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
)

// tensorType is how GGUF stores a tensor.
type tensorType struct {
	id     uint32
	values int // of a block
	bytes  int // of a block
	encode func(dst []byte, row source)
}

// source is a row of a matrix: values in groups, of which synthetic ones are exact in
// four bits.
type source struct {
	m   synthetic.Matrix
	row int
}

func (s source) group(i int) synthetic.Group { return s.m.Group(s.row, i) }

// The types that synthetic weights are written in. F32, BF16, Q4_0 and Q4_K hold them
// exactly.
var types = map[string]tensorType{
	"F32":  {0, 1, 4, encodeF32},
	"BF16": {30, 1, 2, encodeBF16},
	"Q8_0": {8, 32, 34, encodeQ8},
	"Q4_0": {2, 32, 18, encodeQ4},
	"Q4_K": {12, 256, 144, encodeQ4K},
}

func (t tensorType) size(elements int) int { return elements / t.values * t.bytes }

func encodeF32(dst []byte, s source) {
	for g := range s.m.Groups() {
		group := s.group(g)
		for i := range synthetic.GroupLen {
			binary.LittleEndian.PutUint32(dst[4*(g*synthetic.GroupLen+i):], math.Float32bits(group.Float(group.Code(i))))
		}
	}
}

func encodeBF16(dst []byte, s source) {
	for g := range s.m.Groups() {
		group := s.group(g)
		for i := range synthetic.GroupLen {
			binary.LittleEndian.PutUint16(dst[2*(g*synthetic.GroupLen+i):], uint16(math.Float32bits(group.Float(group.Code(i)))>>16))
		}
	}
}

// encodeQ4 writes, for each group, a half and 16 bytes of codes: value =
// (code - 8) * scale. Element i shares a byte with element i+16, as in a group's
// nibbles.
func encodeQ4(dst []byte, s source) {
	for g := range s.m.Groups() {
		group, block := s.group(g), dst[18*g:]
		binary.LittleEndian.PutUint16(block, half(float32(group.Scale)*group.Unit))
		copy(block[2:18], group.Nibbles)
	}
}

// encodeQ4K writes, for each eight groups, two halves d and m, eight pairs of six-bit
// numbers s and o, and the codes: value = d*s*code - m*o. With o = s and m = 8 d that
// is d*s*(code-8).
func encodeQ4K(dst []byte, s source) {
	for b := 0; b < s.m.Groups(); b += 8 {
		block := dst[144*(b/8):][:144]
		var scales [8]byte
		for j := range scales {
			scales[j] = byte(4 * s.group(b+j).Scale)
		}
		unit := s.group(b).Unit / 4
		binary.LittleEndian.PutUint16(block, half(unit))
		binary.LittleEndian.PutUint16(block[2:], half(8*unit))
		// Numbers 0 to 3 take six bits of bytes 0 to 3 (s) and 4 to 7 (o); of the others
		// the low halves share bytes 8 to 11, and the upper two bits lie above the first
		// ones.
		packed := block[4:16]
		for j := range 4 {
			low, high := scales[j], scales[j+4]
			packed[j] = low | high>>4<<6
			packed[j+4] = low | high>>4<<6
			packed[j+8] = high&15 | high&15<<4
		}
		// Each 32 bytes hold two groups: one in low halves, the next in high ones.
		for j := 0; j < 8; j += 2 {
			even, odd := s.group(b+j), s.group(b+j+1)
			for i := range synthetic.GroupLen {
				block[16+16*j+i] = byte(even.Code(i) | odd.Code(i)<<4)
			}
		}
	}
}

func encodeQ8(dst []byte, s source) {
	var values [synthetic.GroupLen]float32
	for g := range s.m.Groups() {
		group := s.group(g)
		for i := range values {
			values[i] = group.Float(group.Code(i))
		}
		putQ8(dst[34*g:], values[:])
	}
}

// putQ8 writes a block of Q8_0: a half and 32 codes, value = code * scale, the largest
// magnitude 127 steps.
func putQ8(dst []byte, values []float32) {
	var largest float32
	for _, v := range values {
		largest = max(largest, v, -v)
	}
	scale := half(largest / 127)
	binary.LittleEndian.PutUint16(dst, scale)
	step := float64(fromHalf(scale))
	for i, v := range values {
		code := 0.0
		if step > 0 {
			code = max(-127, min(127, math.RoundToEven(float64(v)/step)))
		}
		dst[2+i] = byte(int8(code))
	}
}

// half rounds a positive number of the size of weights to IEEE binary16, to nearest
// even; smaller than 2^-14 it is a denormal.
func half(x float32) uint16 {
	exponent := max(math.Ilogb(float64(x)), -14)
	if x == 0 {
		return 0
	}
	mantissa := math.RoundToEven(math.Ldexp(float64(x), 10-exponent)) // 1024 to 2048 if normal
	if mantissa == 2048 {
		mantissa, exponent = 1024, exponent+1
	}
	if mantissa < 1024 {
		return uint16(mantissa)
	}
	return uint16(exponent+15)<<10 | uint16(mantissa)&1023
}

func fromHalf(h uint16) float32 {
	exponent, mantissa := int(h>>10), float64(h&1023)
	if exponent == 0 {
		return float32(math.Ldexp(mantissa, -24))
	}
	return float32(math.Ldexp(1024+mantissa, exponent-25))
}
