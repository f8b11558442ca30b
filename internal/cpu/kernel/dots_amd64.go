//go:build !purego

package kernel

// Dots writes the products of lines of queries, qStride apart, with n keys, stride
// apart: out[i*outStride+j] for line i and key j. All are width long, a multiple of
// Lanes; n is a multiple of Rows. The bits are those of MulF32 from zero and Sum4.
func Dots(out []float32, outStride int, q []float32, qStride, lines int, keys []float32, stride, n, width int) {
	if !fast || width == 0 || lines == 0 {
		dots(out, outStride, q, qStride, lines, keys, stride, n, width)
		return
	}
	// While a group of keys meets the lines, three at a time, the next group is fetched:
	// as many bytes for each vector of a line as bring all of it by the end. Where keys
	// do not follow each other there is no telling where it is.
	ahead := 0
	if threes := lines / 3; threes > 0 && stride == width {
		const line, vectors = 64, 4 * Rows * Lanes // bytes of a cache line; of four keys a vector
		ahead = min(line, vectors/threes+1)
	}
	for j := 0; j < n; j += Rows {
		_, _, _ = out[(lines-1)*outStride+j+Rows-1], q[(lines-1)*qStride+width-1], keys[(j+Rows-1)*stride+width-1]
		dots4(width, &keys[j*stride], stride, &q[0], qStride, lines, &out[j], outStride, ahead)
	}
}

//go:noescape
func dots4(width int, keys *float32, stride int, q *float32, qStride, lines int, out *float32, outStride, ahead int)
