package kernel

import "math"

// The exponential of the kernels is 0 below expLow, where f32 would become
// subnormal, and infinite above expHigh, just below the true limit. Between them
// assembly stays within 4 units in the last place.
const (
	expLow  = -87.3
	expHigh = 88.37
)

func exp(x float32) float32 {
	switch {
	case x < expLow:
		return 0
	case x > expHigh:
		return float32(math.Inf(1))
	}
	return float32(math.Exp(float64(x)))
}

// softmax is the plain Go twin of Softmax.
func softmax(s []float32, scale float32) (largest, sum float32) {
	largest = float32(math.Inf(-1))
	for i, x := range s {
		s[i] = x * scale
		if s[i] > largest {
			largest = s[i]
		}
	}
	var lanes [1]Sums
	for i, x := range s {
		s[i] = exp(x - largest)
		lanes[0][i%Lanes] += s[i]
	}
	return largest, ordered(&lanes[0])
}

// ordered adds partial sums in order.
func ordered(a *Sums) float32 {
	return ((((((a[0] + a[1]) + a[2]) + a[3]) + a[4]) + a[5]) + a[6]) + a[7]
}

// expBlock is how many terms of ExpSum are added in f32.
const expBlock = 1024

// ExpSum returns the sum of exp(x - largest), blocks of it in f32.
func ExpSum(x []float32, largest float32) (sum float64) {
	for len(x) > 0 {
		n := min(expBlock, len(x))
		sum += float64(expSum(x[:n], largest))
		x = x[n:]
	}
	return sum
}

// expSumPlain is the plain Go twin of a block of ExpSum.
func expSumPlain(x []float32, largest float32) float32 {
	var lanes Sums
	for i, v := range x {
		lanes[i%Lanes] += exp(v - largest)
	}
	return ordered(&lanes)
}

// swiGLU is the plain Go twin of SwiGLU.
func swiGLU(g, u []float32, clamp float32) {
	for i, x := range g {
		y := u[i]
		if clamp > 0 {
			if x > clamp {
				x = clamp
			}
			if y > clamp {
				y = clamp
			} else if y < -clamp {
				y = -clamp
			}
		}
		g[i] = x / (1 + exp(-x)) * y
	}
}

// weigh is the plain Go twin of Weigh.
func weigh(y []float32, yStride int, p []float32, pStride, lines int, v []float32, stride, n, cols int, add bool) {
	for i := range lines {
		out := y[i*yStride:][:cols]
		if !add {
			clear(out)
		}
		for k := range n {
			addScaled(out, p[i*pStride+k], v[k*stride:][:cols])
		}
	}
}

// addScaled is the plain Go twin of AddScaled.
func addScaled(y []float32, c float32, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float32(c * v)
	}
}

// blend is the plain Go twin of Blend.
func blend(y []float32, a float32, x []float32, c float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = float32(y[i]*a) + float32(v*c)
	}
}

// scaleMul is the plain Go twin of ScaleMul.
func scaleMul(dst, x []float32, s float32, w []float32) {
	for i, v := range x {
		dst[i] = w[i] * (v * s)
	}
}

// reluSum is the plain Go twin of ReLUSum.
func reluSum(out []float32, d []float32, w []float32, scale float32) {
	var sum [Rows]float32
	for h, weight := range w {
		for i := range sum {
			x := d[h*Rows+i] * scale
			if x < 0 {
				x = 0
			}
			sum[i] += float32(weight * x)
		}
	}
	copy(out, sum[:])
}

// Dot is the product of two vectors in the order of [Sum4].
func Dot(a, b []float32) float32 {
	var s [1]Sums
	whole := len(a) &^ (Lanes - 1)
	addLanes(&s[0], a[:whole], b[:whole])
	for i := whole; i < len(a); i++ {
		s[0][i-whole] += float32(a[i] * b[i])
	}
	return ordered(&s[0])
}
