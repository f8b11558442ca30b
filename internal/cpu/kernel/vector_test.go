package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// ulps is the distance of two floats of one sign in units in the last place.
func ulps(a, b float32) int64 {
	if a == b || a != a && b != b {
		return 0
	}
	d := int64(math.Float32bits(a)) - int64(math.Float32bits(b))
	return max(d, -d)
}

// The exponential, seen through Softmax: with a largest score of 0 each weight is
// exp of its score.
func TestSoftmaxExponential(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	scores := []float32{0, -1e-30, -0x1p-24, -0.5, -1, -10, -87, -87.29, -87.31, -88, -104, -1e30, -inf}
	for range 20000 {
		scores = append(scores, float32(-100*math.Pow(r.Float64(), 3)))
	}
	for len(scores)%Lanes != 0 {
		scores = append(scores, -inf)
	}
	p := readable(t, scores)
	largest, _ := Softmax(p, 1)
	if largest != 0 {
		t.Fatalf("largest %g, want 0", largest)
	}
	var worst int64
	for i, x := range scores {
		want := float32(math.Exp(float64(x)))
		if x < expLow {
			want = 0
		}
		worst = max(worst, ulps(p[i], want))
		if ulps(p[i], want) > 4 {
			t.Fatalf("exp(%g) = %g, want %g", x, p[i], want)
		}
	}
	t.Logf("largest error: %d units in the last place", worst)
}

func TestSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for n := 1; n <= 64; n++ {
		padded := (n + Lanes - 1) / Lanes * Lanes
		p, intact := banded(t, padded, n%3, float32(poisonFloat))
		random(r, p[:n])
		twin := make([]float32, padded)
		for i := n; i < padded; i++ {
			p[i] = -inf
		}
		copy(twin, p)
		const scale = 0.37
		largest, sum := Softmax(p, scale)
		intact()
		wantLargest, wantSum := softmax(twin, scale)
		if largest != wantLargest || math.Abs(float64(sum-wantSum)) > 1e-6*float64(wantSum) {
			t.Fatalf("n=%d: largest %g and sum %g, want %g and %g", n, largest, sum, wantLargest, wantSum)
		}
		var lanes [1]Sums
		for i, v := range p {
			lanes[0][i%Lanes] += v
			if ulps(v, twin[i]) > 4 {
				t.Fatalf("n=%d: weight %d is %g, want %g", n, i, v, twin[i])
			}
		}
		if sum != ordered(&lanes[0]) {
			t.Fatalf("n=%d: sum %g, in order %g", n, sum, ordered(&lanes[0]))
		}
	}
}

func TestExpSum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	for _, n := range []int{1, 7, 8, 9, 1023, 1024, 1025, 154880} {
		x := readable(t, make([]float32, n))
		largest := -inf
		for i := range x {
			x[i] = float32(3 * r.NormFloat64())
			if r.IntN(50) == 0 {
				x[i] = -inf
			}
			largest = max(largest, x[i])
		}
		var want float64
		for _, v := range x {
			want += math.Exp(float64(v - largest))
		}
		if got := ExpSum(x, largest); math.Abs(got-want) > 2e-6*want && want == want {
			t.Errorf("n=%d: %g, want %g", n, got, want)
		}
		x[r.IntN(n)] = nan
		if got := ExpSum(x, 0); got == got {
			t.Errorf("n=%d with a NaN: %g", n, got)
		}
	}
}

// Poison must not get lost: a NaN among the scores or an infinite score makes the
// sum NaN, and so do scores that are all -Inf.
func TestSoftmaxNonFinite(t *testing.T) {
	for i := range 16 {
		for _, bad := range []float32{nan, inf} {
			p := make([]float32, 16)
			p[i] = bad
			if _, sum := Softmax(p, 1); sum == sum {
				t.Errorf("score %d is %g: sum %g", i, bad, sum)
			}
		}
	}
	p := make([]float32, 8)
	for i := range p {
		p[i] = -inf
	}
	if _, sum := Softmax(p, 1); sum == sum {
		t.Errorf("all scores -Inf: sum %g", sum)
	}
}

func TestSwiGLU(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 7, -7, 7.5, -7.5, 50, -50, 87.5, -87.5, 88.3, -88.3, 89, -89, 1e30, -1e30, inf, -inf, nan}
	for _, clamp := range []float32{0, 7} {
		for n := 1; n < 70; n++ {
			g, intact := banded(t, n, n%3, float32(poisonFloat))
			u := readable(t, random(r, make([]float32, n)))
			random(r, g)
			for i := range g {
				if r.IntN(3) == 0 {
					g[i] = special[r.IntN(len(special))]
				}
				if r.IntN(5) == 0 {
					u[i] = special[r.IntN(len(special))]
				}
			}
			want := append([]float32(nil), g...)
			in := append([]float32(nil), g...)
			swiGLU(want, u, clamp)
			SwiGLU(g, u, clamp)
			intact()
			for i := range g {
				if ulps(g[i], want[i]) > 8 {
					t.Fatalf("n=%d clamp %g: silu(%g) * %g = %g, want %g", n, clamp, in[i], u[i], g[i], want[i])
				}
				alone := []float32{in[i]}
				SwiGLU(alone, u[i:i+1], clamp)
				if ulps(alone[0], g[i]) != 0 {
					t.Fatalf("n=%d clamp %g: element %d is %g among others, %g alone", n, clamp, i, g[i], alone[0])
				}
			}
		}
	}
}

// Weighted sums of rows against float64; any grouping of lines and any cut of the
// rows gives the same bits.
func TestWeigh(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for _, cols := range []int{1, 7, 8, 31, 32, 40, 67, 128} {
		for lines := 1; lines <= 7; lines++ {
			for _, n := range []int{1, 2, 13, 64} {
				add := n%2 == 0 || cols%2 == 0 && lines%2 == 0
				t.Run(fmt.Sprintf("cols=%d lines=%d n=%d add=%v", cols, lines, n, add), func(t *testing.T) {
					stride, pStride, yStride := cols+3, n+1, cols+2
					v := readable(t, random(r, make([]float32, (n-1)*stride+cols)))
					p := readable(t, random(r, make([]float32, (lines-1)*pStride+n)))
					y, intact := banded(t, (lines-1)*yStride+cols, 1, float32(poisonFloat))
					random(r, y)
					start := append([]float32(nil), y...)
					Weigh(y, yStride, p, pStride, lines, v, stride, n, cols, add)
					intact()
					for i := range lines {
						for c := range yStride {
							at := i*yStride + c
							if at >= len(y) {
								break
							}
							if c >= cols {
								if y[at] != start[at] {
									t.Fatalf("line %d: column %d beyond the line was written", i, c)
								}
								continue
							}
							want, size := float64(start[at]), math.Abs(float64(start[at]))
							if !add {
								want, size = 0, 0
							}
							for k := range n {
								term := float64(p[i*pStride+k]) * float64(v[k*stride+c])
								want += term
								size += math.Abs(term)
							}
							if math.Abs(float64(y[at])-want) > float64(n+1)*0x1p-24*size {
								t.Fatalf("line %d column %d: %g, want %g", i, c, y[at], want)
							}
						}
						alone := append([]float32(nil), start[i*yStride:][:cols]...)
						cut := n / 2
						Weigh(alone, cols, p[i*pStride:], 0, 1, v, stride, cut, cols, add)
						Weigh(alone, cols, p[i*pStride+cut:], 0, 1, v[cut*stride:], stride, n-cut, cols, true)
						for c, got := range alone {
							if got != y[i*yStride+c] {
								t.Fatalf("line %d column %d: %g alone and cut, %g together", i, c, got, y[i*yStride+c])
							}
						}
					}
				})
			}
		}
	}
}

func TestElementwise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	close := func(got, want, size float64) bool { return math.Abs(got-want) <= 2*0x1p-24*size }
	for n := 1; n < 70; n++ {
		x, w := readable(t, random(r, make([]float32, n))), readable(t, random(r, make([]float32, n)))
		y, intact := banded(t, n, n%3, float32(poisonFloat))
		check := func(what string, f func(), want func(i int, y float32) (value, size float64)) {
			t.Helper()
			random(r, y)
			before := append([]float32(nil), y...)
			f()
			intact()
			for i, got := range y {
				if value, size := want(i, before[i]); !close(float64(got), value, size) {
					t.Fatalf("%s, n=%d: element %d is %g, want %g", what, n, i, got, value)
				}
			}
		}
		const a, c = 0.77, -1.9
		abs := math.Abs
		check("AddScaled", func() { AddScaled(y, c, x) }, func(i int, y float32) (float64, float64) {
			p := float64(float32(c)) * float64(x[i])
			return float64(y) + p, abs(float64(y)) + abs(p)
		})
		check("Blend", func() { Blend(y, a, x, c) }, func(i int, y float32) (float64, float64) {
			p, q := float64(float32(a))*float64(y), float64(float32(c))*float64(x[i])
			return p + q, abs(p) + abs(q)
		})
		check("ScaleMul", func() { ScaleMul(y, x, c, w) }, func(i int, _ float32) (float64, float64) {
			p := float64(float32(c)) * float64(x[i]) * float64(w[i])
			return p, abs(p)
		})
		var want, size float64
		for i := range x {
			p := float64(x[i]) * float64(w[i])
			want += p
			size += abs(p)
		}
		if got := Dot(x, w); abs(float64(got)-want) > float64(n/Lanes+8)*0x1p-24*size {
			t.Fatalf("Dot, n=%d: %g, want %g", n, got, want)
		}
	}
}

func TestReLUSum(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2))
	for heads := 1; heads <= 33; heads++ {
		d := readable(t, random(r, make([]float32, heads*Rows)))
		w := readable(t, random(r, make([]float32, heads)))
		out, intact := banded(t, Rows, heads%3, float32(poisonFloat))
		const scale = 0.088
		ReLUSum(out, d, w, scale)
		intact()
		for i, got := range out {
			var want, size float64
			for h := range w {
				p := float64(w[h]) * max(0, float64(d[h*Rows+i])*float64(float32(scale)))
				want += p
				size += math.Abs(p)
			}
			if math.Abs(float64(got)-want) > float64(heads+2)*0x1p-24*size {
				t.Fatalf("%d heads, key %d: %g, want %g", heads, i, got, want)
			}
		}
		d[r.IntN(heads)*Rows+2] = nan
		ReLUSum(out, d, w, scale)
		for i, got := range out {
			if (got != got) != (i == 2) {
				t.Fatalf("%d heads: key 2 is NaN, key %d gives %g", heads, i, got)
			}
		}
	}
}
