//go:build (amd64 || arm64) && !purego

package kernel

// MulF32 adds the products of groups of Rows weight rows, stride apart in w, with
// each of the 1 to MaxLines rows of x: acc[g*each+i*Rows+r] takes row r of group g
// and x[i]. Rows of x are equally long, a multiple of Lanes.
func MulF32(acc []Sums, each int, w []float32, stride, groups int, x [][]float32) {
	k := len(x[0])
	if !fast || k == 0 {
		mulF32(acc, each, w, stride, groups, x)
		return
	}
	_, _ = acc[(groups-1)*each+len(x)*Rows-1], w[(groups*Rows-1)*stride+k-1]
	switch len(x) {
	case 1:
		for g := range groups {
			mulF32x1(k, &w[g*Rows*stride], stride, &x[0][0], &acc[g*each])
		}
	case 2:
		for g := range groups {
			mulF32x2(k, &w[g*Rows*stride], stride, &x[0][0], &x[1][:k][0], &acc[g*each])
		}
	default:
		mulF32x3(k, &w[0], stride, &x[0][0], &x[1][:k][0], &x[2][:k][0], &acc[0], groups, each)
	}
}

// MulBF16 is MulF32 for one group as stored; stride is in bytes.
func MulBF16(acc []Sums, w []byte, stride int, x [][]float32) {
	k := len(x[0])
	if !fast || k == 0 {
		mulBF16(acc, w, stride, x)
		return
	}
	_, _ = acc[len(x)*Rows-1], w[(Rows-1)*stride+2*k-1]
	switch len(x) {
	case 1:
		mulBF16x1(k, &w[0], stride, &x[0][0], &acc[0])
	case 2:
		mulBF16x2(k, &w[0], stride, &x[0][0], &x[1][:k][0], &acc[0])
	default:
		mulBF16x3(k, &w[0], stride, &x[0][0], &x[1][:k][0], &x[2][:k][0], &acc[0])
	}
}

// Sum4 adds the partial sums of each product in order. Four products after the
// other, a multiple of them in acc, go to four elements of out, stride apart.
func Sum4(out []float32, stride int, acc []Sums) {
	if !fast || len(acc) == 0 {
		sum4(out, stride, acc)
		return
	}
	_ = out[(len(acc)/4-1)*stride+3]
	sumsx4(len(acc), &acc[0], &out[0], stride)
}

// DecodeF32 copies little endian f32 that need not be aligned.
func DecodeF32(dst []float32, src []byte) {
	k := len(dst) &^ 7
	if fast && k > 0 {
		_ = src[4*k-1]
		copyF32(k, &src[0], &dst[0])
		dst, src = dst[k:], src[4*k:]
	}
	decodeF32(dst, src)
}

// DecodeBF16 converts little endian bfloat16 to f32, exactly.
func DecodeBF16(dst []float32, src []byte) {
	k := len(dst) &^ 7
	if fast && k > 0 {
		_ = src[2*k-1]
		expandBF16(k, &src[0], &dst[0])
		dst, src = dst[k:], src[2*k:]
	}
	decodeBF16(dst, src)
}

// DecodeF16 converts little endian IEEE halves to f32, exactly.
func DecodeF16(dst []float32, src []byte) {
	k := len(dst) &^ 7
	if fast && k > 0 {
		_ = src[2*k-1]
		expandF16(k, &src[0], &dst[0])
		dst, src = dst[k:], src[2*k:]
	}
	decodeF16(dst, src)
}

// DecodeF8 converts FP8 E4M3 to f32 and multiplies by scale.
func DecodeF8(dst []float32, src []byte, scale float32) {
	k := len(dst) &^ 31
	if fast && k > 0 {
		_ = src[k-1]
		if !expandF8(k, &src[0], scale, &dst[0]) {
			dst, src = dst[k:], src[k:]
		}
	}
	decodeF8(dst, src, scale)
}

// DecodeGroupF8 converts the first k elements of Rows rows of FP8 E4M3, stride
// apart, with their scales. k is a multiple of StepF8.
func DecodeGroupF8(dst []float32, dstStride int, src []byte, stride int, s Scales, k int) {
	if fast && k > 0 {
		_, _, _ = dst[(Rows-1)*dstStride+k-1], src[(Rows-1)*stride+k-1], s.at(Rows-1, (k-1)/ScaleBlock)
		if !expandGroupF8(k, &src[0], stride, &s.Values[0], s.RowStep, s.BlockStep, &dst[0], dstStride) {
			return
		}
	}
	decodeGroupF8(dst, dstStride, src, stride, s, k)
}

//go:noescape
func mulF32x1(k int, w *float32, stride int, x *float32, acc *Sums)

//go:noescape
func mulF32x2(k int, w *float32, stride int, x0, x1 *float32, acc *Sums)

//go:noescape
func mulF32x3(k int, w *float32, stride int, x0, x1, x2 *float32, acc *Sums, groups, each int)

//go:noescape
func mulBF16x1(k int, w *byte, stride int, x *float32, acc *Sums)

//go:noescape
func mulBF16x2(k int, w *byte, stride int, x0, x1 *float32, acc *Sums)

//go:noescape
func mulBF16x3(k int, w *byte, stride int, x0, x1, x2 *float32, acc *Sums)

// The FP8 kernels say whether a NaN was among the codes; then their output is not
// valid, and products have left acc alone.
//
//go:noescape
func mulF8x1(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x *float32, acc *Sums) (nan bool)

//go:noescape
func expandF8(k int, src *byte, scale float32, dst *float32) (nan bool)

//go:noescape
func expandGroupF8(k int, src *byte, stride int, scales *float32, rowStep, blockStep int, dst *float32, dstStride int) (nan bool)

//go:noescape
func copyF32(k int, src *byte, dst *float32)

//go:noescape
func expandF16(k int, src *byte, dst *float32)

//go:noescape
func expandBF16(k int, src *byte, dst *float32)

//go:noescape
func sumsx4(n int, acc *Sums, out *float32, stride int)
