package cpu

import (
	"unsafe"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// weight is a matrix as stored, decoded block by block where it is used, or
// panels, multiplied as they are.
type weight struct {
	backend.View
	floats []float32 // the data itself when it is aligned f32
	scales []float32 // the scales themselves when they are aligned f32
	panels *panels   // set for a packed weight, whose Data is nil
	heads  *latentUp // set for kv_b
}

func newWeight(v backend.View) *weight {
	w := &weight{View: v}
	if v.DType == backend.F32 {
		w.floats = floatsOf(v.Data)
	}
	if w.scaled() && v.Scales.DType == backend.F32 {
		w.scales = floatsOf(v.Scales.Data)
	}
	return w
}

func (w *weight) scaled() bool { return w.Scales.Rows > 0 }

// floatsOf returns f32 data in place, or nil if it is not aligned.
func floatsOf(data []byte) []float32 {
	p := unsafe.Pointer(&data[0])
	if uintptr(p)%4 != 0 {
		return nil
	}
	return unsafe.Slice((*float32)(p), len(data)/4)
}

// plainFloats returns the matrix itself if it needs no decoding.
func (w *weight) plainFloats() []float32 {
	if w.scaled() {
		return nil
	}
	return w.floats
}

// row returns row n as f32: the stored row itself, or decoded into dst.
func (w *weight) row(n int, dst []float32) []float32 {
	k := w.Cols
	if w.panels != nil {
		w.panels.row(dst[:k], n)
		return dst[:k]
	}
	if f := w.plainFloats(); f != nil {
		return f[n*k : (n+1)*k]
	}
	w.decode(dst[:k], n, 0)
	return dst[:k]
}

// decode writes columns [k0, k0+len(dst)) of row n as f32. They start a block of
// scales or lie in one.
func (w *weight) decode(dst []float32, n, k0 int) {
	size := w.DType.Size()
	src := w.Data[(n*w.Cols+k0)*size:][:len(dst)*size]
	for len(dst) > 0 {
		width, s := len(dst), float32(1)
		if w.scaled() {
			at, step := w.scaleAt(n, k0)
			s = w.Scales.At(at)
			if step > 0 {
				width = min(width, backend.ScaleBlock)
			}
		}
		if w.DType == backend.F8E4M3 {
			kernel.DecodeF8(dst[:width], src, s)
		} else {
			decode(dst[:width], src, w.DType)
			if w.scaled() {
				scale(dst[:width], s)
			}
		}
		dst, src, k0 = dst[width:], src[width*size:], k0+width
	}
}

// scaleAt returns which scale holds for row n at column k0, and how far on the
// next block's stands: 0 if there is but one a row.
func (w *weight) scaleAt(n, k0 int) (at, step int) {
	if w.PerRow() {
		return n, 0
	}
	first := n / backend.ScaleBlock * w.Scales.Cols
	return first + k0/backend.ScaleBlock, 1
}

var noScale = []float32{1}

// scalesFrom returns the scales of the group of rows that starts with row n, from
// the block of column k0 on.
func (w *weight) scalesFrom(n, k0 int) kernel.Scales {
	if !w.scaled() {
		return kernel.Scales{Values: noScale}
	}
	at, step := w.scaleAt(n, k0)
	return kernel.Scales{Values: w.scales[at:], RowStep: 1 - step, BlockStep: step}
}

// vector returns the whole of a one-row weight, or nil for an absent one.
func (w *weight) vector() []float32 {
	if w == nil {
		return nil
	}
	return w.row(0, make([]float32, w.Cols))
}

func scale(x []float32, s float32) {
	for i := range x {
		x[i] *= s
	}
}

// decode converts little endian elements of a format without scales of its own to
// f32, exactly.
func decode(dst []float32, src []byte, t backend.DType) {
	switch t {
	case backend.F32:
		kernel.DecodeF32(dst, src)
	case backend.BF16:
		kernel.DecodeBF16(dst, src)
	case backend.F16:
		kernel.DecodeF16(dst, src)
	}
}
