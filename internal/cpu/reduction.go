package cpu

import "github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"

// The orders of summation in products and attention. Changing a constant changes
// the bits of every result, so kernels change around them and never the other
// way. The other sums have no choice to publish: norms take their mean square
// from dot; the indexer adds its heads, the router its k weights and sampling its
// probabilities one after the other; the indexer's LayerNorm sums in f64, one
// after the other.
const (
	// lanes is L, the number of partial sums of a dot product along k, the same
	// for F32, F16, BF16 and FP8 weights: partial sum j takes the products of
	// k = j mod lanes in ascending k, missing products count as zero, and the
	// partial sums are added in order, ((s0+s1)+s2)+...
	lanes = kernel.Lanes

	// keyBlock is how many keys of a row's ascending list share one maximum, sum
	// and output in attention. Blocks are combined in ascending order.
	keyBlock = 64
)

// dot is the reduction of every product of two f32 vectors. Products with weights
// are internal/cpu/kernel's. The explicit conversion forbids the compiler to fuse
// where it could, so that batch and chunk cannot decide whether it does.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(a) >= lanes && len(b) >= lanes {
		s0 += float32(a[0] * b[0])
		s1 += float32(a[1] * b[1])
		s2 += float32(a[2] * b[2])
		s3 += float32(a[3] * b[3])
		s4 += float32(a[4] * b[4])
		s5 += float32(a[5] * b[5])
		s6 += float32(a[6] * b[6])
		s7 += float32(a[7] * b[7])
		a, b = a[lanes:], b[lanes:]
	}
	tail := [lanes]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	for i := range a {
		tail[i] += float32(a[i] * b[i])
	}
	return ((((((tail[0] + tail[1]) + tail[2]) + tail[3]) + tail[4]) + tail[5]) + tail[6]) + tail[7]
}

// axpy adds c*x to y: the value sum of attention, one term per key in order.
func axpy(c float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float32(c * v)
	}
}
