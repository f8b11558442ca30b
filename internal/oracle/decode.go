package oracle

import (
	"encoding/binary"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// dequantise returns w[r][c] = element * scale, the product rounded to f32.
func dequantise(v backend.View) (*mat.Dense, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	w := mat.NewDense(v.Rows, v.Cols, nil)
	for r := range v.Rows {
		for c := range v.Cols {
			w.Set(r, c, float64(element(v, r*v.Cols+c)*scaleOf(v, r, c)))
		}
	}
	return w, nil
}

// element decodes the i-th stored value.
func element(v backend.View, i int) float32 {
	switch v.DType {
	case backend.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(v.Data[4*i:]))
	case backend.F16:
		return decodeF16(binary.LittleEndian.Uint16(v.Data[2*i:]))
	case backend.BF16:
		return decodeBF16(binary.LittleEndian.Uint16(v.Data[2*i:]))
	default: // View.Check admits only one more
		return decodeE4M3(v.Data[i])
	}
}

// scaleOf returns the multiplier of an element: 1, its row's, or that of its
// 128 x 128 block.
func scaleOf(v backend.View, r, c int) float32 {
	switch {
	case v.Scales.Rows == 0:
		return 1
	case v.PerRow():
		return v.Scales.At(r)
	default:
		return v.Scales.At((r/backend.ScaleBlock)*v.Scales.Cols + c/backend.ScaleBlock)
	}
}

// decodeMinifloat reads sign | exponent | mantissa with subnormals:
// (-1)^s 2^(e-bias) (1 + m/2^mantBits), or (-1)^s 2^(1-bias) m/2^mantBits when e is 0.
func decodeMinifloat(sign bool, exp, mant, mantBits, bias int) float32 {
	f := float64(mant) / float64(int(1)<<mantBits)
	if exp == 0 {
		exp = 1
	} else {
		f++
	}
	f = math.Ldexp(f, exp-bias)
	if sign {
		f = -f
	}
	return float32(f)
}

// decodeE4M3 reads the "fn" variant: no infinities, 0x7f and 0xff are NaN.
func decodeE4M3(b byte) float32 {
	if b&0x7f == 0x7f {
		return float32(math.NaN())
	}
	return decodeMinifloat(b&0x80 != 0, int(b>>3&0xf), int(b&7), 3, 7)
}

func decodeF16(b uint16) float32 {
	sign, exp, mant := b&0x8000 != 0, int(b>>10&0x1f), int(b&0x3ff)
	if exp != 0x1f {
		return decodeMinifloat(sign, exp, mant, 10, 15)
	}
	switch {
	case mant != 0:
		return float32(math.NaN())
	case sign:
		return float32(math.Inf(-1))
	}
	return float32(math.Inf(1))
}

// decodeBF16 reads the upper half of an f32.
func decodeBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// encodeBF16 rounds to nearest, ties to even; a NaN stays a NaN.
func encodeBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if f != f {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
