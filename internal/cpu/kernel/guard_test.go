package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// banded returns n values at an odd offset of a larger slice, and a check that
// nothing around them was written. The slice's capacity ends with its length, so
// that the Go twins cannot reach beyond either.
func banded[T comparable](t *testing.T, n, offset int, poison T) (s []T, intact func()) {
	t.Helper()
	const band = 64
	all := make([]T, band+offset+n+band)
	for i := range all {
		all[i] = poison
	}
	from := band + offset
	return all[from : from+n : from+n], func() {
		t.Helper()
		for i, v := range all {
			if (i < from || i >= from+n) && v != poison {
				t.Fatalf("element %d of the guard band was written: %v", i-from, v)
			}
		}
	}
}

const poisonFloat = 12345.5

// random fills x with values of mixed size and both signs.
func random(r *rand.Rand, x []float32) []float32 {
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Pow(2, float64(r.IntN(9)-4)))
	}
	return x
}

// readable copies data to memory whose end is followed by pages that fault, where
// the system lets the tests have such.
func readable[T any](t *testing.T, data []T) []T {
	t.Helper()
	return atPageEnd(t, data)
}
