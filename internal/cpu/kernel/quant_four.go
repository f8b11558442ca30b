//go:build !amd64 || purego

package kernel

var (
	int4Kernels = panelKernels{1: int4x1, 4: int4x4}
	int8Kernels = panelKernels{1: int8x1, 4: int8x4}
)
