package checkpoint

import (
	"encoding/binary"
	"math"
)

// DType is an element type of a stored tensor, spelled as safetensors spells it.
type DType string

// The element types that are read. All are little-endian.
const (
	F32  DType = "F32"
	F16  DType = "F16"     // IEEE binary16
	BF16 DType = "BF16"    // upper half of a binary32
	F8   DType = "F8_E4M3" // 4 exponent bits, 3 mantissa bits, no infinities, NaN at 0x7f and 0xff, largest 448
)

// Size returns the bytes of one element, 0 for a type that is not read.
func (d DType) Size() int {
	switch d {
	case F32:
		return 4
	case F16, BF16:
		return 2
	case F8:
		return 1
	}
	return 0
}

// ScaleKind says how the scales of a quantised tensor are laid out. A scale is a
// multiplier, whatever its tensor is called: weight = code * scale.
type ScaleKind int

// The layouts of scales.
const (
	ScaleNone     ScaleKind = iota // not quantised
	ScaleBlock128                  // X.weight_scale_inv [ceil(out/128), ceil(in/128)], row-major
	ScaleChannel                   // X.weight_scale [out] or [out, 1]: one per row
)

func (k ScaleKind) String() string {
	switch k {
	case ScaleBlock128:
		return "block128"
	case ScaleChannel:
		return "channel"
	}
	return "none"
}

// Block is the edge of a ScaleBlock128 block. Blocks at the lower and right edge
// are ragged: 576 rows have 5 rows of scales.
const Block = 128

// A Tensor is a view of a stored tensor. Data and Scale.Data are the mapped file
// itself: read-only, dead after [Checkpoint.Close], and not necessarily aligned
// to the element size. Shape is shared and must not be changed.
type Tensor struct {
	Name  string
	DType DType
	Shape []int  // row-major; a linear weight is [out, in], y = W x
	Data  []byte // len is the product of Shape times DType.Size()
	Scale Scale  // Kind is ScaleNone unless DType is F8
}

// Scale is the multiplier that belongs to an F8 tensor.
type Scale struct {
	Kind  ScaleKind
	DType DType // F32 or BF16
	Shape []int
	Data  []byte
}

// At returns scale i in row-major order.
func (s Scale) At(i int) float32 {
	if s.DType == BF16 {
		return bf16(binary.LittleEndian.Uint16(s.Data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(s.Data[4*i:]))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func bf16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
