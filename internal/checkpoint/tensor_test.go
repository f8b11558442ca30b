package checkpoint

import (
	"encoding/binary"
	"math"
	"testing"
)

// value computes a small float's value from its definition.
func value(code uint32, expBits, manBits, bias int, fn bool) float64 {
	sign := 1.0
	if code>>(expBits+manBits)&1 == 1 {
		sign = -1
	}
	exp := int(code>>manBits) & (1<<expBits - 1)
	man := float64(code & (1<<manBits - 1))
	top := 1<<expBits - 1
	switch {
	case fn && exp == top && int(man) == 1<<manBits-1:
		return math.NaN()
	case !fn && exp == top && man == 0:
		return sign * math.Inf(1)
	case !fn && exp == top:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(man, 1-bias-manBits)
	}
	return sign * math.Ldexp(1+math.Ldexp(man, -manBits), exp-bias)
}

func same(got float32, want float64) bool {
	if math.IsNaN(want) {
		return got != got
	}
	return float64(got) == want && math.Signbit(float64(got)) == math.Signbit(want)
}

func TestSmallFloats(t *testing.T) {
	for c := range 256 {
		if got, want := e4m3(byte(c)), value(uint32(c), 4, 3, 7, true); !same(got, want) {
			t.Errorf("e4m3(%#02x) = %g; want %g", c, got, want)
		}
	}
	if e4m3(0x7e) != 448 || e4m3(0x01) != 1.0/512 {
		t.Errorf("e4m3 largest %g, smallest %g; want 448, 1/512", e4m3(0x7e), e4m3(1))
	}
	for c := range 1 << 16 {
		if got, want := f16(uint16(c)), value(uint32(c), 5, 10, 15, false); !same(got, want) {
			t.Fatalf("f16(%#04x) = %g; want %g", c, got, want)
		}
		if got, want := bf16(uint16(c)), value(uint32(c), 8, 7, 127, false); !same(got, want) {
			t.Fatalf("bf16(%#04x) = %g; want %g", c, got, want)
		}
	}
}

func le32(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// A 130 by 129 tensor has four blocks, three of them ragged.
func TestDequantiseBlocks(t *testing.T) {
	const rows, cols = 130, 129
	x := Tensor{DType: F8, Shape: []int{rows, cols}, Data: make([]byte, rows*cols),
		Scale: Scale{Kind: ScaleBlock128, DType: F32, Shape: []int{2, 2}, Data: le32(1, 10, 100, 1000)}}
	for i := range x.Data {
		x.Data[i] = 0x38 // 1.0
	}
	got := x.Float32s()
	for _, c := range []struct {
		row, col int
		want     float32
	}{{0, 0, 1}, {127, 127, 1}, {0, 128, 10}, {127, 128, 10}, {128, 0, 100}, {129, 127, 100}, {128, 128, 1000}, {129, 128, 1000}} {
		if v := got[c.row*cols+c.col]; v != c.want {
			t.Errorf("[%d][%d] = %g; want %g", c.row, c.col, v, c.want)
		}
	}
}

func TestDequantiseChannels(t *testing.T) {
	x := Tensor{DType: F8, Shape: []int{2, 3}, Data: []byte{0x38, 0x40, 0xb8, 0x38, 0x40, 0xb8},
		Scale: Scale{Kind: ScaleChannel, DType: BF16, Shape: []int{2, 1}, Data: []byte{0x00, 0x40, 0x40, 0x40}}} // 2, 3
	want := []float32{2, 4, -2, 3, 6, -3}
	for i, v := range x.Float32s() {
		if v != want[i] {
			t.Errorf("value %d = %g; want %g", i, v, want[i])
		}
	}
	if s := x.Scale.Float32s(); len(s) != 2 || s[0] != 2 || s[1] != 3 {
		t.Errorf("scales %v; want 2, 3", s)
	}
}

// Decoding is by the stored type, whatever it is.
func TestFloat32s(t *testing.T) {
	for _, x := range []Tensor{
		{DType: F32, Shape: []int{2}, Data: le32(1.5, -2)},
		{DType: F16, Shape: []int{2}, Data: []byte{0x00, 0x3e, 0x00, 0xc0}},
		{DType: BF16, Shape: []int{2}, Data: []byte{0xc0, 0x3f, 0x00, 0xc0}},
		{DType: F8, Shape: []int{1, 2}, Data: []byte{0x3c, 0xc0}}, // no scale: the codes themselves
	} {
		if got := x.Float32s(); len(got) != 2 || got[0] != 1.5 || got[1] != -2 {
			t.Errorf("%s: %v; want 1.5, -2", x.DType, got)
		}
	}
}
