//go:build !amd64 || purego

package kernel

// Dots writes the products of lines of queries, qStride apart, with n keys, stride
// apart: out[i*outStride+j] for line i and key j. All are width long, a multiple of
// Lanes; n is a multiple of Rows. The bits are those of MulF32 from zero and Sum4.
func Dots(out []float32, outStride int, q []float32, qStride, lines int, keys []float32, stride, n, width int) {
	dots(out, outStride, q, qStride, lines, keys, stride, n, width)
}
