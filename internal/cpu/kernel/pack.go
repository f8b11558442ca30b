package kernel

import (
	"encoding/binary"
	"math"
)

// PackInt4 appends the panel of up to PanelRows rows of equal length as int4.
// Missing rows and elements are zeros. The scale of a group is such that its
// element of the largest magnitude is -8 steps: the one code without a positive
// counterpart is used, and no other element needs more than 8.
func PackInt4(dst []byte, rows [][]float32) []byte {
	for k := 0; k < len(rows[0]); k += Group {
		var block [Int4Bytes]byte
		for i := range block[:PanelRows*Group/2] {
			block[i] = 0x88
		}
		for r, row := range rows {
			part := row[k:min(k+Group, len(row))]
			half := floatToHalf(extreme(part) / -8)
			binary.LittleEndian.PutUint16(block[PanelRows*Group/2+2*r:], half)
			inverse := inverseOf(half)
			for i, v := range part {
				code := byte(8 + max(-8, min(7, int(math.RoundToEven(float64(v*inverse))))))
				b := &block[i%16/4*32+4*r+i%4]
				if i < 16 {
					*b = *b&0xf0 | code
				} else {
					*b = *b&0x0f | code<<4
				}
			}
		}
		dst = append(dst, block[:]...)
	}
	return dst
}

// PackInt8 appends a panel as int8: the largest magnitude of a group is 127 steps.
func PackInt8(dst []byte, rows [][]float32) []byte {
	for k := 0; k < len(rows[0]); k += Group {
		var block [Int8Bytes]byte
		for r, row := range rows {
			part := row[k:min(k+Group, len(row))]
			half := floatToHalf(float32(math.Abs(float64(extreme(part)))) / 127)
			binary.LittleEndian.PutUint16(block[PanelRows*Group+2*r:], half)
			inverse := inverseOf(half)
			for i, v := range part {
				block[i/4*32+4*r+i%4] = byte(int8(max(-127, min(127, math.RoundToEven(float64(v*inverse))))))
			}
		}
		dst = append(dst, block[:]...)
	}
	return dst
}

// extreme returns the element of the largest magnitude.
func extreme(x []float32) (m float32) {
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(m)) {
			m = v
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
