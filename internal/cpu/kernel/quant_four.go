//go:build !amd64 || purego

package kernel

// quantLines is how many activation lines the matrix-matrix kernels take.
const quantLines = 4

var (
	int4Kernels = panelKernels{1: int4x1, 4: int4x4}
	int8Kernels = panelKernels{1: int8x1, 4: int8x4}
)

// widens says that int8 weights are multiplied with int16 pairs of codes.
const widens = false

func (q *Quantized) widen(at, groups int) {}
