package kernel

import (
	"encoding/binary"
	"math"
)

// halfNaN is the scale of a group with an element that is not finite, or too large
// for any scale: it reaches every product with the row.
const halfNaN = 0x7e00

// PackInt4 appends the panel of up to PanelRows rows of equal length as int4.
// Missing rows and elements are zeros. Codes are -8 to 7; of three scales a group
// takes the one with the least squared error: with the element of the largest
// magnitude at -8 steps, which has no positive counterpart, with it at -8.4, which
// cuts it off a little and makes every other step finer, and the least-squares fit
// to the better one's codes.
func PackInt4(dst []byte, rows [][]float32) []byte {
	for k := 0; k < len(rows[0]); k += Group {
		var block [Int4Bytes]byte
		for i := range block[:PanelRows*Group/2] {
			block[i] = 0x88
		}
		for r, row := range rows {
			var codes [Group]int8
			half := quantizeInt4(&codes, row[k:min(k+Group, len(row))])
			binary.LittleEndian.PutUint16(block[PanelRows*Group/2+2*r:], half)
			for i := range Group / 2 {
				block[i/4*32+4*r+i%4] = byte(codes[i]+8) | byte(codes[i+Group/2]+8)<<4
			}
		}
		dst = append(dst, block[:]...)
	}
	return dst
}

// PackInt8 appends a panel as int8: the largest magnitude of a group is at most 127
// steps.
func PackInt8(dst []byte, rows [][]float32) []byte {
	for k := 0; k < len(rows[0]); k += Group {
		var block [Int8Bytes]byte
		for r, row := range rows {
			var codes [Group]int8
			half := quantizeInt8(&codes, row[k:min(k+Group, len(row))])
			binary.LittleEndian.PutUint16(block[PanelRows*Group+2*r:], half)
			for i, c := range codes {
				block[i/4*32+4*r+i%4] = byte(c)
			}
		}
		dst = append(dst, block[:]...)
	}
	return dst
}

func quantizeInt4(codes *[Group]int8, x []float32) (half uint16) {
	top := extreme(x)
	if top-top != 0 {
		return halfNaN
	}
	best, bestHalf := int4Fit{err: float32(math.Inf(1))}, uint16(halfNaN)
	try := func(scale float32) {
		h := floatToHalf(scale)
		if fit := encodeInt4(x, h); fit.err < best.err {
			best, bestHalf = fit, h
		}
	}
	try(top / -8)
	try(top / -8.4)
	if best.squares > 0 {
		try(best.products / best.squares)
	}
	*codes = best.codes
	return bestHalf
}

// int4Fit are the codes of a group under one scale.
type int4Fit struct {
	codes             [Group]int8
	err               float32 // sum of (element - code * scale)^2
	products, squares float32 // sums of element * code and code^2
}

func encodeInt4(x []float32, half uint16) (f int4Fit) {
	scale, inverse := halfToFloat(half), inverseOf(half)
	for i, v := range x {
		code := toNearest(v * inverse)
		if code > 7 {
			code = 7
		} else if code < -8 {
			code = -8
		}
		off := v - float32(code*scale)
		f.codes[i] = int8(code)
		f.err += float32(off * off)
		f.products += float32(v * code)
		f.squares += float32(code * code)
	}
	return f
}

func quantizeInt8(codes *[Group]int8, x []float32) (half uint16) {
	top := extreme(x)
	if top-top != 0 {
		return halfNaN
	}
	if top < 0 {
		top = -top
	}
	half = floatToHalf(top / 127)
	if float32(halfToFloat(half)*127) < top { // rounded down
		half++
	}
	inverse := inverseOf(half)
	for i, v := range x {
		codes[i] = int8(toNearest(v * inverse))
	}
	return half
}

// extreme returns the element of the largest magnitude, or one that is not finite.
func extreme(x []float32) (m float32) {
	var most float32
	for _, v := range x {
		a := v
		if a < 0 {
			a = -a
		}
		if a > most {
			m, most = v, a
		}
		if v-v != 0 {
			return v
		}
	}
	return m
}

// inverseOf returns what divides by a stored scale; a group whose scale vanishes
// is zero.
func inverseOf(half uint16) float32 {
	if s := halfToFloat(half); s != 0 {
		return 1 / s
	}
	return 0
}

// toNearest rounds to the nearest integer, ties to even, while that is small: the
// addition leaves no room for a fraction.
func toNearest(x float32) float32 {
	const magic = 3 << 22
	return float32(float32(x)+magic) - magic
}
