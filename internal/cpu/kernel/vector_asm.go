//go:build (amd64 || arm64) && !purego

package kernel

import "math"

// wide is how many columns the kernels of Weigh take at a time.
const wide = 32

// Softmax replaces scores by exp(scale*s - largest) and returns the largest scaled
// score and the sum, in the order of [Sum4]. scale is positive, and s is padded
// with -Inf to a multiple of Lanes.
func Softmax(s []float32, scale float32) (largest, sum float32) {
	if !fast || len(s) == 0 {
		return softmax(s, scale)
	}
	return softmaxAsm(len(s), &s[0], scale)
}

// SwiGLU writes silu(g) * u to g, with the published clamp if it is positive: the
// gate from above only, the other branch from both sides. What becomes of an
// element does not depend on its place.
func SwiGLU(g, u []float32, clamp float32) {
	if !fast {
		swiGLU(g, u, clamp)
		return
	}
	if clamp <= 0 {
		clamp = float32(math.Inf(1))
	}
	whole := len(g) &^ (Lanes - 1)
	if whole > 0 {
		swiGLUAsm(whole, &g[0], &u[:whole][0], clamp)
	}
	if whole < len(g) {
		var lastG, lastU [Lanes]float32
		copy(lastG[:], g[whole:])
		copy(lastU[:], u[whole:len(g)])
		swiGLUAsm(Lanes, &lastG[0], &lastU[0], clamp)
		copy(g[whole:], lastG[:])
	}
}

// Weigh sums weighted rows: line i of y, of cols columns, takes p[i*pStride+k] of row
// k of v for every k in [0, n), in order, added to what it is or, without add, to zero.
func Weigh(y []float32, yStride int, p []float32, pStride, lines int, v []float32, stride, n, cols int, add bool) {
	if !fast || n == 0 {
		weigh(y, yStride, p, pStride, lines, v, stride, n, cols, add)
		return
	}
	_, _, _ = y[(lines-1)*yStride+cols-1], p[(lines-1)*pStride+n-1], v[(n-1)*stride+cols-1]
	c := 0
	for ; c+wide <= cols; c += wide {
		i := 0
		for ; i+3 <= lines; i += 3 {
			weigh3(n, &v[c], stride, &p[i*pStride], pStride, &y[i*yStride+c], yStride, add)
		}
		if i+2 <= lines {
			weigh2(n, &v[c], stride, &p[i*pStride], pStride, &y[i*yStride+c], yStride, add)
			i += 2
		}
		if i < lines {
			weigh1(n, &v[c], stride, &p[i*pStride], &y[i*yStride+c], add)
		}
	}
	for ; c+Lanes <= cols; c += Lanes {
		for i := range lines {
			weighLanes(n, &v[c], stride, &p[i*pStride], &y[i*yStride+c], add)
		}
	}
	if c < cols {
		weigh(y[c:], yStride, p, pStride, lines, v[c:], stride, n, cols-c, add)
	}
}

// AddScaled adds c*x to y.
func AddScaled(y []float32, c float32, x []float32) {
	whole := len(x) &^ (Lanes - 1)
	if fast && whole > 0 {
		addScaledAsm(whole, &y[:whole][0], c, &x[0])
		y, x = y[whole:], x[whole:]
	}
	addScaled(y, c, x)
}

// Blend sets y to a*y + c*x.
func Blend(y []float32, a float32, x []float32, c float32) {
	whole := len(x) &^ (Lanes - 1)
	if fast && whole > 0 {
		blendAsm(whole, &y[:whole][0], a, &x[0], c)
		y, x = y[whole:], x[whole:]
	}
	blend(y, a, x, c)
}

// ScaleMul sets dst, which may be x, to w * (x * s).
func ScaleMul(dst, x []float32, s float32, w []float32) {
	whole := len(x) &^ (Lanes - 1)
	if fast && whole > 0 {
		scaleMulAsm(whole, &dst[:whole][0], &x[0], s, &w[:whole][0])
		dst, x, w = dst[whole:], x[whole:], w[whole:]
	}
	scaleMul(dst, x, s, w)
}

// ReLUSum sets out[i], for Rows keys, to the sum over heads h, in order, of
// w[h] * max(0, scale*d[h*Rows+i]). NaN stays NaN.
func ReLUSum(out, d, w []float32, scale float32) {
	if !fast || len(w) == 0 {
		reluSum(out, d, w, scale)
		return
	}
	_, _ = out[Rows-1], d[len(w)*Rows-1]
	reluSumAsm(len(w), &out[0], &d[0], &w[0], scale)
}

// addLanes adds the products of a and b, a multiple of Lanes long.
func addLanes(s *Sums, a, b []float32) {
	if !fast || len(a) == 0 {
		addProducts(s, a, b)
		return
	}
	addLanesAsm(len(a), s, &a[0], &b[:len(a)][0])
}

func expSum(x []float32, largest float32) float32 {
	whole := len(x) &^ (Lanes - 1)
	if !fast || whole == 0 {
		return expSumPlain(x, largest)
	}
	return expSumAsm(whole, &x[0], largest) + expSumPlain(x[whole:], largest)
}

//go:noescape
func expSumAsm(n int, x *float32, largest float32) float32

//go:noescape
func softmaxAsm(n int, s *float32, scale float32) (largest, sum float32)

//go:noescape
func swiGLUAsm(n int, gate, up *float32, clamp float32)

//go:noescape
func weigh3(n int, v *float32, stride int, p *float32, pStride int, y *float32, yStride int, add bool)

//go:noescape
func weigh2(n int, v *float32, stride int, p *float32, pStride int, y *float32, yStride int, add bool)

//go:noescape
func weigh1(n int, v *float32, stride int, p, y *float32, add bool)

//go:noescape
func weighLanes(n int, v *float32, stride int, p, y *float32, add bool)

//go:noescape
func addScaledAsm(n int, y *float32, c float32, x *float32)

//go:noescape
func blendAsm(n int, y *float32, a float32, x *float32, c float32)

//go:noescape
func scaleMulAsm(n int, dst, x *float32, s float32, w *float32)

//go:noescape
func reluSumAsm(n int, out, d, w *float32, scale float32)

//go:noescape
func addLanesAsm(n int, s *Sums, a, b *float32)
