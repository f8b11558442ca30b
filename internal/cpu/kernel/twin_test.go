package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// add is s + w*x as this build rounds it: once in assembly, twice in plain Go.
func add(s, w, x float32) float32 {
	if Name() == "plain Go" {
		return s + float32(w*x)
	}
	return fused(s, w, x)
}

// fused is s + w*x rounded once. The product is exact in float64; the sum is
// rounded to odd there, so that only the rounding to float32 counts.
func fused(s, w, x float32) float32 {
	p, c := float64(w)*float64(x), float64(s)
	sum := p + c
	part := sum - p
	lost := (p - (sum - part)) + (c - part)
	if lost != 0 && math.Float64bits(sum)&1 == 0 {
		sum = math.Nextafter(sum, math.Inf(int(math.Copysign(1, lost))))
	}
	return float32(sum)
}

func TestFused(t *testing.T) {
	const u = 0x1p-23
	for _, c := range []struct{ s, w, x, want float32 }{
		{1, 2, 3, 7},
		{-1, 1 + u, 1 - u, -u * u}, // the product alone would become 1
		{1, 0x1p-12, 0x1p-12, 1},   // half a step: to even
		{1, 0x1p-12, 0x1p-12 * (1 + u), 1 + u},
		{1 + u, 0x1p-12, 0x1p-12 * (1 - u), 1 + u},
		{0x1p60, 0x1p6, 0x1p30, 0x1p60},
		{0x1p60 + 0x1p37, 0x1p18 * (1 + u), 0x1p18 * (1 - u), 0x1p60 + 0x1p37}, // in float64 exactly half a step
	} {
		if got := fused(c.s, c.w, c.x); got != c.want {
			t.Errorf("%g + %g * %g: %g, want %g", c.s, c.w, c.x, got, c.want)
		}
	}
}

// The published order of sums gives the very bits of every product, so that
// instruction sets that fuse agree.
func TestOrderOfSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	for _, k := range lengths {
		for lines := 1; lines <= MaxLines; lines++ {
			w, stored := make([]float32, Rows*k), bf16s(r, k, 2*k)
			DecodeBF16(w, stored)
			x := make([][]float32, lines)
			for i := range x {
				x[i] = random(r, make([]float32, k))
			}
			acc := make([]Sums, lines*Rows)
			for i := range acc {
				random(r, acc[i][:])
			}
			want, asStored := slices.Clone(acc), slices.Clone(acc)
			MulF32(acc, 0, w, k, 1, x)
			MulBF16(asStored, stored, 2*k, x)
			for i := range want {
				for j := range k {
					s := &want[i][j%Lanes]
					*s = add(*s, w[i%Rows*k+j], x[i/Rows][j])
				}
				if acc[i] != want[i] || asStored[i] != want[i] {
					t.Fatalf("k=%d, product %d of %d lines: %v, as stored %v, want %v", k, i, lines, acc[i], asStored[i], want[i])
				}
			}
		}
	}
}

// So it is with the other kernels; the last few elements are plain Go.
func TestOrderOfVectors(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 4))
	for n := 1; n < 100; n++ {
		whole := n &^ (Lanes - 1)
		addAt := func(i int, s, w, x float32) float32 {
			if i < whole {
				return add(s, w, x)
			}
			return s + float32(w*x)
		}
		check := func(what string, got, want []float32) {
			t.Helper()
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s, n=%d: element %d is %g, want %g", what, n, i, got[i], want[i])
				}
			}
		}
		const lines, rows = 4, 5
		v, p, y := random(r, make([]float32, rows*n)), random(r, make([]float32, lines*rows)), random(r, make([]float32, lines*n))
		want := slices.Clone(y)
		for i := range want {
			for k := range rows {
				want[i] = addAt(i%n, want[i], p[i/n*rows+k], v[k*n+i%n])
			}
		}
		Weigh(y, n, p, rows, lines, v, n, rows, n, true)
		check("Weigh", y, want)

		x, y, c := v[:n], y[:n], p[0]
		for i := range x {
			want[i] = addAt(i, y[i], c, x[i])
		}
		AddScaled(y, c, x)
		check("AddScaled", y, want)

		for i := range x {
			want[i] = addAt(i, float32(y[i]*p[1]), x[i], c)
		}
		Blend(y, p[1], x, c)
		check("Blend", y, want)

		var s Sums
		for i := range x {
			s[i%Lanes] = addAt(i, s[i%Lanes], x[i], y[i])
		}
		check("Dot", []float32{Dot(x, y)}, []float32{ordered(&s)})

		d, w := random(r, make([]float32, n*Rows)), random(r, make([]float32, n))
		var out, sum [Rows]float32
		ReLUSum(out[:], d, w, c)
		for i := range d {
			sum[i%Rows] = add(sum[i%Rows], w[i/Rows], max(0, float32(d[i]*c)))
		}
		check("ReLUSum", out[:], sum[:])
	}
}

// The two builds of a product differ by no more than the stated bound.
func TestTwinsAreNear(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, k := range lengths {
		x := [][]float32{random(r, make([]float32, k)), random(r, make([]float32, k)), random(r, make([]float32, k))}
		stored, w := bf16s(r, k, 2*k), make([]float32, Rows*k)
		var acc, twin [MaxLines * Rows]Sums
		near := func(what string) {
			t.Helper()
			for i := range acc {
				var size float64
				for j, v := range x[i/Rows] {
					size += math.Abs(float64(v) * float64(w[i%Rows*k+j]))
				}
				bound := 2 * float64(k/Lanes+8) * 0x1p-24 * size
				if d := math.Abs(float64(ordered(&acc[i])) - float64(ordered(&twin[i]))); !(d <= bound) {
					t.Fatalf("%s, k=%d, product %d: the twins differ by %g, at most %g", what, k, i, d, bound)
				}
			}
		}
		random(r, w)
		MulF32(acc[:], 0, w, k, 1, x)
		mulF32(twin[:], 0, w, k, 1, x)
		near("MulF32")
		clear(acc[:])
		clear(twin[:])
		DecodeBF16(w, stored)
		MulBF16(acc[:], stored, 2*k, x)
		mulBF16(twin[:], stored, 2*k, x)
		near("MulBF16")
	}
}

// Quantised products, exact within groups, whose scaling is in order.
func TestOrderOfGroups(t *testing.T) {
	for _, f := range quantFormats {
		r := rand.New(rand.NewPCG(4, 4))
		for groups := 1; groups < 9; groups++ {
			for lines := 1; lines <= 9; lines++ {
				w, q := f.panel(r, groups, lines%2 == 0), quantLinesOf(r, lines, groups*Group, groups%2 == 0)
				y := make([]float32, lines*PanelRows)
				f.mul(y, PanelRows, w, q, 0, lines)
				for i, got := range y {
					line, row, want := i/PanelRows, i%PanelRows, float32(0)
					for g := range groups {
						block, at, exact := w[g*f.bytes:], line*groups+g, 0
						for j := range Group {
							exact += f.code(block, row, j) * int(q.Codes[at*Group+j])
						}
						term := float32(float32(exact) * q.Scales[at])
						want = add(want, term, f.scale(block, row))
					}
					if got != want {
						t.Fatalf("%s, %d groups: line %d of %d, row %d: %g, want %g", f.name, groups, line, lines, row, got, want)
					}
				}
			}
		}
	}
}

// exponential is exp as this build computes it: in assembly the steps of its
// polynomial, each rounded once.
func exponential(x float32) float32 {
	if Name() == "plain Go" || x < expLow || x > expHigh || x != x {
		return exp(x)
	}
	n := float32(math.RoundToEven(float64(float32(x * math.Log2E))))
	r := fused(fused(x, -n, 0.69140625), -n, 0x1.c85fep-10) // ln 2 in two parts
	p := float32(1. / 5040)
	for _, c := range []float32{1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1} {
		p = fused(c, p, r)
	}
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// What is made of exponentials has one value per build, and instruction sets agree.
func TestOrderOfExponentials(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 4))
	for n := Lanes; n < 2000; n += 3 * Lanes {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(8)-1)))
		}
		p, g, u := slices.Clone(x), slices.Clone(x), random(r, make([]float32, n))
		largest, _ := Softmax(p, 0.75)
		SwiGLU(g, u, 0)
		for i, v := range x {
			if want := exponential(float32(v*0.75) - largest); p[i] != want {
				t.Fatalf("n=%d: exp(%g - %g) is %g, want %g", n, v*0.75, largest, p[i], want)
			}
			if want := v / (1 + exponential(-v)) * u[i]; g[i] != want {
				t.Fatalf("n=%d: silu(%g) * %g is %g, want %g", n, v, u[i], g[i], want)
			}
		}
	}
}

// Where a group stops to count as zeros, both builds agree.
func TestTinyGroups(t *testing.T) {
	for _, largest := range []float32{math.Nextafter32(tiny, 0), tiny, math.Nextafter32(tiny, 1)} {
		x := make([]float32, Group)
		x[5], x[6] = -largest, largest/3
		q := new(Quantized)
		q.Resize(1, Group)
		q.Set(0, x)
		var codes [Group]int8
		scale, offset := quantizeGroup(codes[:], x)
		if (scale == 0) != (largest < tiny) || scale != q.Scales[0] || offset != q.offsets[0] || codes != [Group]int8(q.Codes) {
			t.Errorf("%g: codes %v scale %g offset %#x, want %v, %g, %#x", largest, q.Codes, q.Scales[0], q.offsets[0], codes, scale, offset)
		}
	}
}

// A NaN is not the largest score, and spoils no weight but its own.
func TestSoftmaxAroundNaN(t *testing.T) {
	for i := range 2 * Lanes {
		p := make([]float32, 2*Lanes)
		for j := range p {
			p[j] = float32(-j)
		}
		p[i] = nan
		twin := slices.Clone(p)
		largest, _ := Softmax(p, 0.5)
		want, _ := softmax(twin, 0.5)
		if largest != want {
			t.Errorf("score %d is NaN: largest %g, want %g", i, largest, want)
		}
		for j := range p {
			if ulps(p[j], twin[j]) > 4 || (p[j] != p[j]) != (i == j) {
				t.Errorf("score %d is NaN: weight %d is %g, want %g", i, j, p[j], twin[j])
			}
		}
	}
}
