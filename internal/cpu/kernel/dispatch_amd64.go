//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// fast says that the processor and the system have what the assembly uses.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C

// Name says which kernels run.
func Name() string {
	if fast {
		return "AVX2"
	}
	return "plain Go"
}

// MaxLinesF8 is how many lines MulF8 takes at most, in registers with the weights
// it decodes; for more it is faster to decode a block.
const MaxLinesF8 = 4

// MulF8 is MulBF16 for 1 to MaxLinesF8 rows of x and FP8 E4M3 weights with a scale
// every ScaleBlock elements; each weight is rounded after scaling. The rows' length
// is a multiple of StepF8.
func MulF8(acc []Sums, w []byte, stride int, s Scales, x [][]float32) {
	k := len(x[0])
	if !fast || k == 0 {
		mulF8(acc, w, stride, s, x)
		return
	}
	_, _, _ = acc[len(x)*Rows-1], w[(Rows-1)*stride+k-1], s.at(Rows-1, (k-1)/ScaleBlock)
	var nan bool
	switch len(x) {
	case 1:
		nan = mulF8x1(k, &w[0], stride, &s.Values[0], s.RowStep, s.BlockStep, &x[0][0], &acc[0])
	case 2:
		nan = mulF8x2(k, &w[0], stride, &s.Values[0], s.RowStep, s.BlockStep, &x[0][0], &x[1][:k][0], &acc[0])
	case 3: // and the third once more
		var four [4 * Rows]Sums
		copy(four[:], acc[:3*Rows])
		nan = mulF8x4(k, &w[0], stride, &s.Values[0], s.RowStep, s.BlockStep, &x[0][0], &x[1][:k][0], &x[2][:k][0], &x[2][0], &four[0])
		if !nan {
			copy(acc, four[:3*Rows])
		}
	default:
		nan = mulF8x4(k, &w[0], stride, &s.Values[0], s.RowStep, s.BlockStep, &x[0][0], &x[1][:k][0], &x[2][:k][0], &x[3][:k][0], &acc[0])
	}
	if nan {
		mulF8(acc, w, stride, s, x)
	}
}

//go:noescape
func mulF8x2(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x0, x1 *float32, acc *Sums) (nan bool)

//go:noescape
func mulF8x4(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x0, x1, x2, x3 *float32, acc *Sums) (nan bool)
