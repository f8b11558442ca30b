package cpu

import "math"

// lowerWins inverts an index, so that of equal scores the lower one is larger.
const lowerWins = ^uint32(0)

// rankKey orders scores and indices by one integer: the score's bits made
// monotone, then the index. All keys differ, so the largest ones are the same set
// whatever the algorithm.
func rankKey(x float32, i int) uint64 {
	if x == 0 {
		x = 0 // -0 equals +0
	}
	return uint64(monotone(x))<<32 | uint64(uint32(i)^lowerWins)
}

func rankedIndex(key uint64) int32 { return int32(uint32(key) ^ lowerWins) }

// monotone maps floats to integers of the same order, -0 before +0.
func monotone(x float32) uint32 {
	bits := math.Float32bits(x)
	if bits>>31 != 0 {
		return ^bits
	}
	return bits | 1<<31
}

// keepLargest reorders x so that its n largest elements come first (quickselect
// with a median of three; elements are distinct).
func keepLargest(x []uint64, n int) {
	for len(x) > 1 && n > 0 && n < len(x) {
		a, m, c := x[0], x[len(x)/2], x[len(x)-1]
		pivot := max(min(a, m), min(max(a, m), c))
		i, j := 0, len(x)-1
		for i <= j {
			for x[i] > pivot {
				i++
			}
			for x[j] < pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		// x[:j+1] > pivot >= x[j+1:i] > x[i:]
		switch {
		case n <= j:
			x = x[:j+1]
		case n >= i:
			x, n = x[i:], n-i
		default:
			return
		}
	}
}
