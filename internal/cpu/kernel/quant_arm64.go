//go:build !purego

package kernel

// The panel kernels of MulInt4 and MulInt8, which have checked the lengths of y
// and w; those of x follow from line being one of its lines. Without the dot
// product four lines are one after the other. Either way the bits are the same.

func int4x4(y []float32, yStride int, w []byte, x *Quantized, line int) {
	if !dot || x.Groups == 0 {
		for i := range quantLines {
			int4x1(y[i*yStride:], 0, w, x, line+i)
		}
		return
	}
	at := line * x.Groups
	_ = x.Scales[at+quantLines*x.Groups-1]
	int4x4Dot(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &x.offsets[at], &y[0], yStride)
}

func int4x1(y []float32, _ int, w []byte, x *Quantized, line int) {
	if x.Groups == 0 {
		mulInt4(y, w, x, line)
		return
	}
	at := line * x.Groups
	_ = x.Scales[at+x.Groups-1]
	if dot {
		int4x1Dot(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &x.offsets[at], &y[0])
	} else {
		int4x1Long(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &x.offsets[at], &y[0])
	}
}

func int8x4(y []float32, yStride int, w []byte, x *Quantized, line int) {
	if !dot || x.Groups == 0 {
		for i := range quantLines {
			int8x1(y[i*yStride:], 0, w, x, line+i)
		}
		return
	}
	at := line * x.Groups
	_ = x.Scales[at+quantLines*x.Groups-1]
	int8x4Dot(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &y[0], yStride)
}

func int8x1(y []float32, _ int, w []byte, x *Quantized, line int) {
	if x.Groups == 0 {
		mulInt8(y, w, x, line)
		return
	}
	at := line * x.Groups
	_ = x.Scales[at+x.Groups-1]
	if dot {
		int8x1Dot(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &y[0])
	} else {
		int8x1Long(x.Groups, &w[0], &x.Codes[at*Group], &x.Scales[at], &y[0])
	}
}

// quantize quantises whole groups.
func quantize(groups int, x []float32, codes []int8, scales []float32, offsets []uint32) {
	if groups == 0 {
		return
	}
	_, _ = x[groups*Group-1], codes[groups*Group-1]
	_, _ = scales[groups-1], offsets[groups-1]
	quantizeNEON(groups, &x[0], &codes[0], &scales[0], &offsets[0])
}

//go:noescape
func quantizeNEON(groups int, x *float32, codes *int8, scales *float32, offsets *uint32)

//go:noescape
func int4x4Dot(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)

//go:noescape
func int4x1Dot(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32)

//go:noescape
func int8x4Dot(groups int, w *byte, codes *int8, scales *float32, y *float32, yStride int)

//go:noescape
func int8x1Dot(groups int, w *byte, codes *int8, scales *float32, y *float32)

//go:noescape
func int4x1Long(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32)

//go:noescape
func int8x1Long(groups int, w *byte, codes *int8, scales *float32, y *float32)
