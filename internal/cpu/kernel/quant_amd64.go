//go:build !purego

package kernel

// int4Kernels and int8Kernels are called with checked lengths of y and w; those of x
// follow from line being one of its lines.
var (
	int4Kernels = panelKernels{1: int4By(1, int4x1AVX), 2: int4By(2, int4x2AVX), 3: int4By(3, int4x3AVX), 4: int4By(4, int4x4AVX)}
	int8Kernels = panelKernels{1: int8x1, 2: int8By(2, int8x2AVX), 4: int8By(4, int8x4AVX), 6: int8By(6, int8x6AVX)}
)

func int4By(lines int, f func(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)) panelKernel {
	return func(y []float32, yStride int, w []byte, x *Quantized, line int) {
		if !fast || x.Groups == 0 {
			for i := range lines {
				mulInt4(y[i*yStride:], w, x, line+i)
			}
			return
		}
		at := line * x.Groups
		_ = x.Scales[at+lines*x.Groups-1]
		f(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &x.offsets[at], &y[0], yStride)
	}
}

func int8By(lines int, f func(groups int, w *byte, wide *int16, scales *float32, y *float32, yStride int)) panelKernel {
	return func(y []float32, yStride int, w []byte, x *Quantized, line int) {
		if !fast || x.Groups == 0 {
			for i := range lines {
				mulInt8(y[i*yStride:], w, x, line+i)
			}
			return
		}
		at := line * x.Groups
		_ = x.Scales[at+lines*x.Groups-1]
		f(x.Groups, &w[0], &x.wide[at*Group], &x.Scales[at], &y[0], yStride)
	}
}

func int8x1(y []float32, yStride int, w []byte, x *Quantized, line int) {
	if !fast || x.Groups == 0 {
		mulInt8(y, w, x, line)
		return
	}
	at := line * x.Groups
	_ = x.Scales[at+x.Groups-1]
	int8x1AVX(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &y[0], yStride)
}

// widens says that int8 weights are multiplied with int16 pairs of codes.
const widens = true

// widen makes the pairs of some groups: those of codes 0 and 2 of every four first,
// then those of codes 1 and 3.
func (q *Quantized) widen(at, groups int) {
	if fast && groups > 0 {
		_, _ = q.Codes[(at+groups)*Group-1], q.wide[(at+groups)*Group-1]
		widenAVX(groups, &q.Codes[at*Group], &q.wide[at*Group])
	}
}

// quantize quantises whole groups.
func quantize(groups int, x []float32, codes []int8, scales []float32, offsets []uint32) {
	if !fast || groups == 0 {
		for g := range groups {
			scales[g], offsets[g] = quantizeGroup(codes[g*Group:][:Group], x[g*Group:][:Group])
		}
		return
	}
	_, _ = x[groups*Group-1], codes[groups*Group-1]
	_, _ = scales[groups-1], offsets[groups-1]
	quantizeAVX(groups, &x[0], &codes[0], &scales[0], &offsets[0])
}

//go:noescape
func quantizeAVX(groups int, x *float32, codes *int8, scales *float32, offsets *uint32)

//go:noescape
func int4x1AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)

//go:noescape
func int4x2AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)

//go:noescape
func int4x3AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)

//go:noescape
func int4x4AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)

//go:noescape
func int8x1AVX(groups int, w *byte, codes *int8, scales *float32, y *float32, yStride int)

//go:noescape
func int8x2AVX(groups int, w *byte, wide *int16, scales *float32, y *float32, yStride int)

//go:noescape
func int8x4AVX(groups int, w *byte, wide *int16, scales *float32, y *float32, yStride int)

//go:noescape
func int8x6AVX(groups int, w *byte, wide *int16, scales *float32, y *float32, yStride int)

//go:noescape
func widenAVX(groups int, codes *int8, wide *int16)
