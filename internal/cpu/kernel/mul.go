package kernel

// Lanes is the number of partial sums of a product along k. Eight is one AVX2 or
// two NEON registers.
const Lanes = 8

// Rows is how many weight rows a kernel multiplies at a time.
const Rows = 4

// MaxLines is how many activation rows a kernel takes at most: with Rows weight
// rows, twelve accumulators hide the latency of the multiplier and leave registers
// for the operands.
const MaxLines = 3

// Sums are the partial sums of one product.
type Sums [Lanes]float32

// mulF32 is the plain Go twin of MulF32.
func mulF32(acc []Sums, each int, w []float32, stride, groups int, x [][]float32) {
	for g := range groups {
		for i, line := range x {
			for r := range Rows {
				addProducts(&acc[g*each+i*Rows+r], w[(g*Rows+r)*stride:], line)
			}
		}
	}
}

// addProducts adds w[k]*x[k] to s for k in [0, len(x)). The explicit conversion
// forbids the compiler to fuse where it could, so that how k was cut cannot decide
// whether it does.
func addProducts(s *Sums, w, x []float32) {
	s0, s1, s2, s3, s4, s5, s6, s7 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	w = w[:len(x)]
	for len(x) >= Lanes && len(w) >= Lanes {
		s0 += float32(w[0] * x[0])
		s1 += float32(w[1] * x[1])
		s2 += float32(w[2] * x[2])
		s3 += float32(w[3] * x[3])
		s4 += float32(w[4] * x[4])
		s5 += float32(w[5] * x[5])
		s6 += float32(w[6] * x[6])
		s7 += float32(w[7] * x[7])
		w, x = w[Lanes:], x[Lanes:]
	}
	*s = Sums{s0, s1, s2, s3, s4, s5, s6, s7}
}

// mulBF16 is the plain Go twin of MulBF16.
func mulBF16(acc []Sums, w []byte, stride int, x [][]float32) {
	const block = 128
	var row [block]float32
	for r := range Rows {
		for k := 0; k < len(x[0]); k += block {
			width := min(block, len(x[0])-k)
			decodeBF16(row[:width], w[r*stride+2*k:])
			for i, line := range x {
				addProducts(&acc[i*Rows+r], row[:], line[k:k+width])
			}
		}
	}
}

// mulF8 is the plain Go twin of MulF8 and, on top of the other kernels, what it
// does when a NaN is among the weights.
func mulF8(acc []Sums, w []byte, stride int, s Scales, x [][]float32) {
	var tile [Rows * ScaleBlock]float32
	for k := 0; k < len(x[0]); k += ScaleBlock {
		width := min(ScaleBlock, len(x[0])-k)
		for r := range Rows {
			decodeF8(tile[r*ScaleBlock:][:width], w[r*stride+k:], s.at(r, k/ScaleBlock))
		}
		for i, line := range x {
			MulF32(acc[i*Rows:], 0, tile[:], ScaleBlock, 1, [][]float32{line[k : k+width]})
		}
	}
}

// sum4 is the plain Go twin of Sum4.
func sum4(out []float32, stride int, acc []Sums) {
	for i := range acc {
		out[i/4*stride+i%4] = ordered(&acc[i])
	}
}
