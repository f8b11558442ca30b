//go:build !purego

package kernel

func int4x4(y []float32, yStride int, w []byte, x *Quantized, line int) {
	for i := range quantLines {
		mulInt4(y[i*yStride:], w, x, line+i)
	}
}

func int4x1(y []float32, _ int, w []byte, x *Quantized, line int) { mulInt4(y, w, x, line) }

func int8x4(y []float32, yStride int, w []byte, x *Quantized, line int) {
	for i := range quantLines {
		mulInt8(y[i*yStride:], w, x, line+i)
	}
}

func int8x1(y []float32, _ int, w []byte, x *Quantized, line int) { mulInt8(y, w, x, line) }

func quantize(groups int, x []float32, codes []int8, scales []float32, offsets []uint32) {
	for g := range groups {
		scales[g], offsets[g] = quantizeGroup(codes[g*Group:][:Group], x[g*Group:][:Group])
	}
}
