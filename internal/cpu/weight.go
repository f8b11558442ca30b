package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// weight is a matrix as stored, decoded row by row where it is used.
type weight struct {
	backend.View
	floats []float32 // the data itself when it is aligned f32
	heads  *latentUp // set for kv_b
}

func newWeight(v backend.View) *weight {
	w := &weight{View: v}
	if v.DType == backend.F32 && uintptr(unsafe.Pointer(&v.Data[0]))%4 == 0 {
		w.floats = unsafe.Slice((*float32)(unsafe.Pointer(&v.Data[0])), v.Rows*v.Cols)
	}
	return w
}

// row returns row n as f32: the stored row itself, or decoded into dst.
func (w *weight) row(n int, dst []float32) []float32 {
	k := w.Cols
	if w.floats != nil && w.Scales.Rows == 0 {
		return w.floats[n*k : (n+1)*k]
	}
	dst = dst[:k]
	size := w.DType.Size()
	decode(dst, w.Data[n*k*size:(n+1)*k*size], w.DType)
	switch {
	case w.Scales.Rows == 0:
	case w.PerRow():
		scale(dst, w.Scales.At(n))
	default:
		first := n / backend.ScaleBlock * w.Scales.Cols
		for b := 0; b*backend.ScaleBlock < k; b++ {
			scale(dst[b*backend.ScaleBlock:min(k, (b+1)*backend.ScaleBlock)], w.Scales.At(first+b))
		}
	}
	return dst
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

// decode converts little endian elements to f32; every format converts exactly.
func decode(dst []float32, src []byte, t backend.DType) {
	switch t {
	case backend.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case backend.BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case backend.F16:
		for i := range dst {
			dst[i] = f16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case backend.F8E4M3:
		src = src[:len(dst)]
		for i, c := range src {
			dst[i] = e4m3[c]
		}
	}
}

// f16 converts an IEEE half: 1 sign, 5 exponent and 10 mantissa bits.
func f16(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, int(h>>10&31), uint32(h&1023)
	switch exp {
	case 0: // zero or subnormal: man * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(man)*0x1p-24))
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | man<<13)
	}
	return math.Float32frombits(sign | uint32(exp+127-15)<<23 | man<<13)
}

// e4m3 maps the 256 codes of FP8 E4M3 "fn": 1 sign, 4 exponent (bias 7) and 3
// mantissa bits, no infinities, NaN only at 0x7f and 0xff.
var e4m3 = func() (t [256]float32) {
	for c := range t {
		exp, man := c>>3&15, float64(c&7)
		v := math.Ldexp(1+man/8, exp-7)
		switch {
		case exp == 0:
			v = math.Ldexp(man/8, -6)
		case exp == 15 && man == 7:
			v = math.NaN()
		}
		if c >= 128 {
			v = -v
		}
		t[c] = float32(v)
	}
	return t
}()
