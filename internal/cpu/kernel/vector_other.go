//go:build (!amd64 && !arm64) || purego

package kernel

// Softmax replaces scores by exp(scale*s - largest) and returns the largest scaled
// score and the sum, in the order of [Sum4]. scale is positive, and s is padded
// with -Inf to a multiple of Lanes.
func Softmax(s []float32, scale float32) (largest, sum float32) { return softmax(s, scale) }

// SwiGLU writes silu(g) * u to g, with the published clamp if it is positive: the
// gate from above only, the other branch from both sides. What becomes of an
// element does not depend on its place.
func SwiGLU(g, u []float32, clamp float32) { swiGLU(g, u, clamp) }

// Weigh sums weighted rows: line i of y, of cols columns, takes p[i*pStride+k] of row
// k of v for every k in [0, n), in order, added to what it is or, without add, to zero.
func Weigh(y []float32, yStride int, p []float32, pStride, lines int, v []float32, stride, n, cols int, add bool) {
	weigh(y, yStride, p, pStride, lines, v, stride, n, cols, add)
}

// AddScaled adds c*x to y.
func AddScaled(y []float32, c float32, x []float32) { addScaled(y, c, x) }

// Blend sets y to a*y + c*x.
func Blend(y []float32, a float32, x []float32, c float32) { blend(y, a, x, c) }

// ScaleMul sets dst, which may be x, to w * (x * s).
func ScaleMul(dst, x []float32, s float32, w []float32) { scaleMul(dst, x, s, w) }

// ReLUSum sets out[i], for Rows keys, to the sum over heads h, in order, of
// w[h] * max(0, scale*d[h*Rows+i]). NaN stays NaN.
func ReLUSum(out, d, w []float32, scale float32) { reluSum(out, d, w, scale) }

func addLanes(s *Sums, a, b []float32) { addProducts(s, a, b) }

func expSum(x []float32, largest float32) float32 { return expSumPlain(x, largest) }
