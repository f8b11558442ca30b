package checkpoint

import (
	"fmt"
	"math"
)

// maxE4M3 is the largest value of an F8_E4M3 code.
const maxE4M3 = 448

// badScale returns the index of the first scale that no quantiser writes, and
// what is wrong with it; -1 if all are sound.
//
// A scale is finite, so is its product with the largest code, and it is not
// negative. Zero is sound only over weights whose codes are all zero: anywhere
// else it erases them, which is how a scale lost on the way looks.
func badScale(t Tensor) (i int, want, have string) {
	n := len(t.Scale.Data) / t.Scale.DType.Size()
	for i := range n {
		s := t.Scale.At(i)
		switch {
		case math.IsNaN(float64(s)) || float64(s)*maxE4M3 > math.MaxFloat32 || s < 0:
			return i, "a finite scale that is not negative", fmt.Sprint(s)
		case s == 0 && !zeroCodes(t, i):
			return i, "a scale above zero over codes that are not", "0"
		}
	}
	return -1, "", ""
}

// zeroCodes reports whether every code under scale i is plus or minus zero.
func zeroCodes(t Tensor, i int) bool {
	rows, cols := t.Shape[0], t.Shape[1]
	r0, r1, c0, c1 := i, i+1, 0, cols
	if t.Scale.Kind == ScaleBlock128 {
		across := ceilDiv(cols, Block)
		r0, c0 = i/across*Block, i%across*Block
		r1, c1 = min(r0+Block, rows), min(c0+Block, cols)
	}
	for r := r0; r < r1; r++ {
		for _, code := range t.Data[r*cols+c0 : r*cols+c1] {
			if code&0x7f != 0 {
				return false
			}
		}
	}
	return true
}
