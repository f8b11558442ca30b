package kernel

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	halfInf = 0x7c00 // the exponent of infinities and NaN
	// halfNaN is the scale of a group with an element that is not finite, or too
	// large for any scale: it reaches every product with the row.
	halfNaN = 0x7e00
)

// PackInt4 appends the panel of up to PanelRows rows of equal length as int4.
// Missing rows and elements are zeros.
//
// Codes are -8 to 7. A group is coded with its element of the largest magnitude at -8
// steps, which has no positive counterpart, and with it at -8.4, which cuts it off a
// little and makes every other step finer. Its scale is the least-squares fit to the
// codes that fit better, and its codes are those under that scale.
func PackInt4(dst []byte, rows [][]float32) []byte {
	var codes [Group]int8
	for k := 0; k < len(rows[0]); k += Group {
		var block [Int4Bytes]byte
		for i := range block[:PanelRows*Group/2] {
			block[i] = 0x88
		}
		for r, row := range rows {
			x := group(row, k)
			half := scaleInt4(x)
			binary.LittleEndian.PutUint16(block[PanelRows*Group/2+2*r:], half)
			encode(x, inverseOf(half), -8, 7, &codes)
			for i := 0; i < Group/2; i += 4 {
				binary.LittleEndian.PutUint32(block[8*i+4*r:], nibbles(&codes, i)|nibbles(&codes, i+Group/2)<<4)
			}
		}
		dst = append(dst, block[:]...)
	}
	return dst
}

// PackInt8 appends a panel as int8: the largest magnitude of a group is at most 127
// steps.
func PackInt8(dst []byte, rows [][]float32) []byte {
	var codes [Group]int8
	for k := 0; k < len(rows[0]); k += Group {
		var block [Int8Bytes]byte
		for r, row := range rows {
			x := group(row, k)
			half := scaleInt8(x)
			binary.LittleEndian.PutUint16(block[PanelRows*Group+2*r:], half)
			encode(x, inverseOf(half), -127, 127, &codes)
			for i := 0; i < Group; i += 4 {
				binary.LittleEndian.PutUint32(block[8*i+4*r:], four(&codes, i))
			}
		}
		dst = append(dst, block[:]...)
	}
	return dst
}

// four returns codes [i, i+4) as bytes.
func four(codes *[Group]int8, i int) uint32 {
	return uint32(uint8(codes[i])) | uint32(uint8(codes[i+1]))<<8 | uint32(uint8(codes[i+2]))<<16 | uint32(uint8(codes[i+3]))<<24
}

// nibbles returns codes [i, i+4), which are -8 to 7, plus 8: to flip the fourth bit is
// to add 8 to what four bits hold.
func nibbles(codes *[Group]int8, i int) uint32 { return (four(codes, i) ^ 0x08080808) & 0x0f0f0f0f }

// group returns elements [k, k+Group) of a row, filled up with zeros.
func group(row []float32, k int) *[Group]float32 {
	if k+Group <= len(row) {
		return (*[Group]float32)(row[k:])
	}
	x := new([Group]float32)
	copy(x[:], row[k:])
	return x
}

// scaleInt4 returns the scale of a group.
func scaleInt4(x *[Group]float32) (half uint16) {
	top := extreme(x)
	if half = floatToHalf(top / -8); half&halfInf == halfInf { // infinite or NaN
		return halfNaN
	}
	var codes [Group]int8
	var scale, best float32
	for _, half := range [...]uint16{half, floatToHalf(top / -8.4)} {
		products, squares := encode(x, inverseOf(half), -8, 7, &codes)
		// The squared error under the best scale is that of nothing, less this.
		if gain := products * products / squares; gain > best {
			scale, best = products/squares, gain
		}
	}
	return floatToHalf(scale)
}

// scaleInt8 returns the scale of a group.
func scaleInt8(x *[Group]float32) (half uint16) {
	top := extreme(x)
	if top < 0 {
		top = -top
	}
	half = floatToHalf(top / 127)
	if half&halfInf == halfInf {
		return halfNaN
	}
	if float32(halfToFloat(half)*127) < top { // rounded down
		half++
	}
	return half
}

// extremeGroup is the plain Go twin of extreme.
func extremeGroup(x *[Group]float32) float32 {
	var most uint32 // magnitude above, sign below
	for _, v := range x {
		most = max(most, bits.RotateLeft32(math.Float32bits(v), 1))
	}
	return math.Float32frombits(bits.RotateLeft32(most, -1))
}

// inverseOf returns what divides by a stored scale; a group whose scale vanishes
// is zero.
func inverseOf(half uint16) float32 {
	if s := halfToFloat(half); s != 0 {
		return 1 / s
	}
	return 0
}

// encodeGroup is the plain Go twin of encode.
func encodeGroup(x *[Group]float32, inverse, lowest, highest float32, codes *[Group]int8) (products, squares float32) {
	const magic = 3 << 22 // adding it leaves no room for a fraction
	for i, v := range x {
		c := float32(float32(v*inverse)+magic) - magic
		if c > highest {
			c = highest
		} else if !(c >= lowest) {
			c = lowest
		}
		codes[i] = int8(c)
		products += float32(v * c)
		squares += float32(c * c)
	}
	return products, squares
}
