//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// dot says that the processor multiplies and adds four int8 at a time. All else
// that the assembly uses, every arm64 processor has.
var dot = cpu.ARM64.HasASIMDDP

// fast says that there is assembly for every processor.
const fast = true

// Name says which kernels run.
func Name() string {
	if dot {
		return "NEON with dot product"
	}
	return "NEON"
}

// MaxLinesF8 is how many lines MulF8 takes at most, in registers with the weights
// it decodes; for more it is faster to decode a block.
const MaxLinesF8 = 1

// MulF8 is MulBF16 for 1 to MaxLinesF8 rows of x and FP8 E4M3 weights with a scale
// every ScaleBlock elements; each weight is rounded after scaling. The rows' length
// is a multiple of StepF8.
func MulF8(acc []Sums, w []byte, stride int, s Scales, x [][]float32) {
	if k := len(x[0]); k > 0 {
		_, _, _ = acc[Rows-1], w[(Rows-1)*stride+k-1], s.at(Rows-1, (k-1)/ScaleBlock)
		if !mulF8x1(k, &w[0], stride, &s.Values[0], s.RowStep, s.BlockStep, &x[0][0], &acc[0]) {
			return
		}
	}
	mulF8(acc, w, stride, s, x)
}
