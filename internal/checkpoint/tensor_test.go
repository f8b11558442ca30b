package checkpoint

import (
	"encoding/binary"
	"math"
	"testing"
)

func le32(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// Scales come out the same whatever they are stored as and wherever they lie.
func TestScales(t *testing.T) {
	want := []float32{2, 3, 0.5}
	odd := append([]byte{0xff}, le32(want...)...)
	for name, s := range map[string]Scale{
		"F32":          {DType: F32, Data: le32(want...)},
		"F32 at odd":   {DType: F32, Data: odd[1:]},
		"BF16":         {DType: BF16, Data: []byte{0x00, 0x40, 0x40, 0x40, 0x00, 0x3f}},
		"BF16 and odd": {DType: BF16, Data: []byte{0xff, 0x00, 0x40, 0x40, 0x40, 0x00, 0x3f}[1:]},
	} {
		for i := range want {
			if s.At(i) != want[i] {
				t.Errorf("%s: scale %d is %g; want %g", name, i, s.At(i), want[i])
			}
		}
	}
}

func TestDTypeSize(t *testing.T) {
	for d, want := range map[DType]int{F32: 4, F16: 2, BF16: 2, F8: 1, "F64": 0, "": 0} {
		if d.Size() != want {
			t.Errorf("%q takes %d bytes; want %d", d, d.Size(), want)
		}
	}
}
