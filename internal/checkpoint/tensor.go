package checkpoint

import (
	"encoding/binary"
	"math"
	"unsafe"
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

// Len returns the number of elements.
func (t Tensor) Len() int { return len(t.Data) / t.DType.Size() }

// At returns scale i in row-major order.
func (s Scale) At(i int) float32 {
	if s.DType == BF16 {
		return bf16(binary.LittleEndian.Uint16(s.Data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(s.Data[4*i:]))
}

// Float32s returns the scales in row-major order: a read-only view of the file
// where its bytes are aligned 32-bit floats, else a decoded copy.
func (s Scale) Float32s() []float32 {
	if len(s.Data) == 0 {
		return nil
	}
	n := len(s.Data) / s.DType.Size()
	if p := unsafe.Pointer(unsafe.SliceData(s.Data)); s.DType == F32 && uintptr(p)%4 == 0 {
		return unsafe.Slice((*float32)(p), n)
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = s.At(i)
	}
	return out
}

// Float32s decodes the whole tensor into a new slice on the Go heap, scales
// applied. It is meant for norms, biases and other small tensors, and for tests.
func (t Tensor) Float32s() []float32 {
	out := make([]float32, t.Len())
	switch t.DType {
	case F32:
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case BF16:
		for i := range out {
			out[i] = bf16(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	case F16:
		for i := range out {
			out[i] = f16(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	case F8:
		cols := t.Shape[len(t.Shape)-1]
		for i := range out {
			out[i] = e4m3(t.Data[i]) * t.scaleAt(i/cols, i%cols, cols)
		}
	}
	return out
}

func (t Tensor) scaleAt(row, col, cols int) float32 {
	switch t.Scale.Kind {
	case ScaleBlock128:
		return t.Scale.At(row/Block*ceilDiv(cols, Block) + col/Block)
	case ScaleChannel:
		return t.Scale.At(row)
	}
	return 1
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func bf16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// f16 widens an IEEE binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
func f16(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp, man := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero and subnormals: man * 2^-24
		f := float32(man) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	case 0x1f: // infinity and NaN
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | man<<13)
}

// e4m3 widens an 8-bit float of the "fn" kind: 1 sign, 4 exponent (bias 7), 3
// mantissa bits; all ones but the sign is NaN, and there is no infinity.
func e4m3(c byte) float32 {
	sign := uint32(c>>7) << 31
	exp, man := uint32(c>>3&0xf), uint32(c&7)
	switch {
	case c&0x7f == 0x7f:
		return math.Float32frombits(sign | 0x7fc00000)
	case exp == 0: // zero and subnormals: man * 2^-9
		f := float32(man) * 0x1p-9
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+127-7)<<23 | man<<20)
}
