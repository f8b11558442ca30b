package kernel

// dots is Dots on top of the other kernels, which give the same bits.
func dots(out []float32, outStride int, q []float32, qStride, lines int, keys []float32, stride, n, width int) {
	var acc [MaxLines * Rows]Sums
	var some [MaxLines][]float32
	for j := 0; j < n; j += Rows {
		for i := 0; i < lines; i += MaxLines {
			m := min(MaxLines, lines-i)
			for l := range m {
				some[l] = q[(i+l)*qStride:][:width]
			}
			clear(acc[:])
			MulF32(acc[:m*Rows], 0, keys[j*stride:], stride, 1, some[:m])
			Sum4(out[i*outStride+j:], outStride, acc[:m*Rows])
		}
	}
}
