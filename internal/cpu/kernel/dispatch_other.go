//go:build (!amd64 && !arm64) || purego

package kernel

// Name says which kernels run.
func Name() string { return "plain Go" }

// MulF32 adds the products of groups of Rows weight rows, stride apart in w, with
// each of the 1 to MaxLines rows of x: acc[g*each+i*Rows+r] takes row r of group g
// and x[i]. Rows of x are equally long, a multiple of Lanes.
func MulF32(acc []Sums, each int, w []float32, stride, groups int, x [][]float32) {
	mulF32(acc, each, w, stride, groups, x)
}

// MulBF16 is MulF32 for one group as stored; stride is in bytes.
func MulBF16(acc []Sums, w []byte, stride int, x [][]float32) { mulBF16(acc, w, stride, x) }

// MaxLinesF8 is how many lines MulF8 takes at most.
const MaxLinesF8 = 4

// MulF8 is MulBF16 for 1 to MaxLinesF8 rows of x and FP8 E4M3 weights with a scale
// every ScaleBlock elements; each weight is rounded after scaling. The rows' length
// is a multiple of StepF8.
func MulF8(acc []Sums, w []byte, stride int, s Scales, x [][]float32) {
	mulF8(acc, w, stride, s, x)
}

// Sum4 adds the partial sums of each product in order. Four products after the
// other, a multiple of them in acc, go to four elements of out, stride apart.
func Sum4(out []float32, stride int, acc []Sums) { sum4(out, stride, acc) }

// DecodeF32 copies little endian f32 that need not be aligned.
func DecodeF32(dst []float32, src []byte) { decodeF32(dst, src) }

// DecodeBF16 converts little endian bfloat16 to f32, exactly.
func DecodeBF16(dst []float32, src []byte) { decodeBF16(dst, src) }

// DecodeF16 converts little endian IEEE halves to f32, exactly.
func DecodeF16(dst []float32, src []byte) { decodeF16(dst, src) }

// DecodeF8 converts FP8 E4M3 to f32 and multiplies by scale.
func DecodeF8(dst []float32, src []byte, scale float32) { decodeF8(dst, src, scale) }

// DecodeGroupF8 converts the first k elements of Rows rows of FP8 E4M3, stride
// apart, with their scales. k is a multiple of StepF8.
func DecodeGroupF8(dst []float32, dstStride int, src []byte, stride int, s Scales, k int) {
	decodeGroupF8(dst, dstStride, src, stride, s, k)
}
