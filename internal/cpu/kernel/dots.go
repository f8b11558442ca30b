package kernel

// dots is Dots on top of the other kernels, which give the same bits.
func dots(out []float32, outStride int, q []float32, qStride, lines int, keys []float32, stride, n, width int) {
	var acc [Rows]Sums
	for j := 0; j < n; j += Rows {
		for i := range lines {
			clear(acc[:])
			MulF32(acc[:], 0, keys[j*stride:], stride, 1, [][]float32{q[i*qStride:][:width]})
			Sum4(out[i*outStride+j:], Rows, acc[:])
		}
	}
}
