package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A score depends on its query and its key alone: the bits are those of one product
// after another, whatever the numbers of lines and keys, and they are within the
// stated bound of the value in float64. Nothing between the scores is written.
func TestDots(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for _, width := range lengths {
		for lines := 1; lines <= 8; lines++ {
			for _, n := range []int{Rows, 3 * Rows} {
				what := fmt.Sprintf("width=%d lines=%d n=%d", width, lines, n)
				stride, qStride, outStride := width+width%5, width+lines%2, n+lines%3
				keys := readable(t, random(r, make([]float32, (n-1)*stride+width)))
				q := readable(t, random(r, make([]float32, (lines-1)*qStride+width)))
				out, intact := banded(t, (lines-1)*outStride+n, 1, float32(poisonFloat))
				Dots(out, outStride, q, qStride, lines, keys, stride, n, width)
				intact()
				for at, got := range out {
					i, j := at/outStride, at%outStride
					if j >= n {
						if got != poisonFloat {
							t.Fatalf("%s: element %d between the lines was written", what, at)
						}
						continue
					}
					line, key := q[i*qStride:][:width], keys[j*stride:][:width]
					within(t, what, Sums{got}, key, line)
					var alone [Rows]Sums
					var want [Rows]float32
					first := j / Rows * Rows
					MulF32(alone[:], 0, keys[first*stride:], stride, 1, [][]float32{line})
					Sum4(want[:], 0, alone[:])
					if got != want[j-first] {
						t.Fatalf("%s: line %d key %d: %g, alone %g", what, i, j, got, want[j-first])
					}
				}
			}
		}
	}
}

// No key, no line and no width are no products.
func TestDotsOfNothing(t *testing.T) {
	out := []float32{1, 2, 3, 4}
	Dots(out, 4, nil, 8, 0, make([]float32, 4*8), 8, 4, 8)
	Dots(out, 4, make([]float32, 8), 8, 1, nil, 8, 0, 8)
	if [4]float32(out) != [4]float32{1, 2, 3, 4} {
		t.Fatalf("nothing wrote %v", out)
	}
}
