package backend

import "fmt"

// DType is the element type of stored weights.
type DType uint8

const (
	F32 DType = iota + 1
	F16
	BF16
	F8E4M3 // "fn": no infinities, 0x7f and 0xff are NaN, largest value 448
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
// Scales multiply: w[r][c] = element * scale. ScaleRows and ScaleCols give the
// scale matrix's shape; both zero means no scales. [ceil(Rows/128),
// ceil(Cols/128)] is one scale per block, [Rows, 1] one per row.
type View struct {
	Name       string // for errors
	Rows, Cols int
	DType      DType
	Data       []byte

	Scale                []float32
	ScaleRows, ScaleCols int
}

// Check reports whether the sizes agree.
func (v View) Check() error {
	if v.Rows <= 0 || v.Cols <= 0 || v.DType.Size() == 0 {
		return fmt.Errorf("backend: weight %s: shape [%d %d] of %s", v.Name, v.Rows, v.Cols, v.DType)
	}
	if want := v.Rows * v.Cols * v.DType.Size(); len(v.Data) != want {
		return fmt.Errorf("backend: weight %s: %d bytes, want %d", v.Name, len(v.Data), want)
	}
	if len(v.Scale) != v.ScaleRows*v.ScaleCols {
		return fmt.Errorf("backend: weight %s: %d scales, want [%d %d]", v.Name, len(v.Scale), v.ScaleRows, v.ScaleCols)
	}
	switch {
	case v.ScaleRows == 0 && v.ScaleCols == 0:
	case v.ScaleRows == v.Rows && v.ScaleCols == 1:
	case v.ScaleRows == ceilDiv(v.Rows, ScaleBlock) && v.ScaleCols == ceilDiv(v.Cols, ScaleBlock):
	default:
		return fmt.Errorf("backend: weight %s [%d %d]: scales of shape [%d %d]", v.Name, v.Rows, v.Cols, v.ScaleRows, v.ScaleCols)
	}
	return nil
}

// PerRow reports whether each row has one scale of its own.
func (v View) PerRow() bool { return v.ScaleRows == v.Rows && v.ScaleCols == 1 }

func ceilDiv(a, b int) int { return (a + b - 1) / b }
