package backend

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the element type of stored weights.
type DType uint8

// The element types that are read, all little endian.
const (
	F32    DType = iota + 1
	F16          // IEEE binary16
	BF16         // upper half of a binary32
	F8E4M3       // "fn": no infinities, 0x7f and 0xff are NaN, largest value 448
)

// Size returns the bytes of one element.
func (d DType) Size() int {
	switch d {
	case F32:
		return 4
	case F16, BF16:
		return 2
	case F8E4M3:
		return 1
	}
	return 0
}

func (d DType) String() string {
	switch d {
	case F32:
		return "F32"
	case F16:
		return "F16"
	case BF16:
		return "BF16"
	case F8E4M3:
		return "F8_E4M3"
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// ScaleBlock is the side of the square block that shares one scale in the
// vendor's FP8 layout.
const ScaleBlock = 128

// View is a weight as it is stored: a row-major matrix [Rows, Cols] of DType,
// little endian. A vector has one row.
//
// Scales multiply: w[r][c] = element * scale, rounded to f32.
type View struct {
	Name       string // for errors
	Rows, Cols int
	DType      DType
	Data       []byte
	Scales     Scales
}

// Scales is a row-major matrix of multipliers as it is stored, F32 or BF16. None
// at all is the zero value; [ceil(rows/128), ceil(cols/128)] of its weight is one
// per block, [rows, 1] one per row.
type Scales struct {
	Rows, Cols int
	DType      DType
	Data       []byte
}

// At returns scale i in row-major order.
func (s Scales) At(i int) float32 {
	if s.DType == BF16 {
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(s.Data[2*i:])) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(s.Data[4*i:]))
}

// ScalesOf stores values as F32.
func ScalesOf(rows, cols int, values ...float32) Scales {
	s := Scales{Rows: rows, Cols: cols, DType: F32}
	for _, v := range values {
		s.Data = binary.LittleEndian.AppendUint32(s.Data, math.Float32bits(v))
	}
	return s
}

// Check reports whether the sizes agree.
func (v View) Check() error {
	if v.Rows <= 0 || v.Cols <= 0 || v.DType.Size() == 0 {
		return fmt.Errorf("backend: weight %s: shape [%d %d] of %s", v.Name, v.Rows, v.Cols, v.DType)
	}
	if want := v.Rows * v.Cols * v.DType.Size(); len(v.Data) != want {
		return fmt.Errorf("backend: weight %s: %d bytes, want %d", v.Name, len(v.Data), want)
	}
	s := v.Scales
	if s.Rows == 0 && s.Cols == 0 && len(s.Data) == 0 {
		return nil
	}
	if s.DType != F32 && s.DType != BF16 || len(s.Data) != s.Rows*s.Cols*s.DType.Size() {
		return fmt.Errorf("backend: weight %s: %d bytes of %s scales, want [%d %d]", v.Name, len(s.Data), s.DType, s.Rows, s.Cols)
	}
	if !v.PerRow() && (s.Rows != ceilDiv(v.Rows, ScaleBlock) || s.Cols != ceilDiv(v.Cols, ScaleBlock)) {
		return fmt.Errorf("backend: weight %s [%d %d]: scales of shape [%d %d]", v.Name, v.Rows, v.Cols, s.Rows, s.Cols)
	}
	return nil
}

// PerRow reports whether each row has one scale of its own.
func (v View) PerRow() bool { return v.Scales.Rows == v.Rows && v.Scales.Cols == 1 }

func ceilDiv(a, b int) int { return (a + b - 1) / b }
