package backendtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// index are the sizes and the content of a selection.
type index struct {
	heads, dim, k int
	q, w, keys    func(key) []float32 // nil: normal values
}

func (x index) scene() scene {
	if x.q == nil {
		x.q = rows("qI", x.heads*x.dim, 1)
	}
	if x.w == nil {
		x.w = rows("wI", x.heads, 1)
	}
	if x.keys == nil {
		x.keys = rows("index keys", x.dim, 1)
	}
	return scene{
		pages:  360,
		planes: []plane{{width: 2, fill: rows("another plane", 2, 1)}, {width: x.dim, fill: x.keys}},
		build: func(r *rig) backend.Program {
			return backend.Program{&backend.IndexSelect{
				Q: r.in("q", x.heads*x.dim, x.q), W: r.in("w", x.heads, x.w),
				Heads: x.heads, HeadDim: x.dim, Plane: 1, K: x.k, Dst: r.selected("selection", x.k, nil),
			}}
		},
	}
}

// nearTies are the rows whose K-th and next score differ by less than an f32
// sum may err. The scores are computed here, apart from the oracle.
func (x index) nearTies(l layout, sc scene) []key {
	var out []key
	q, w := rows("qI", x.heads*x.dim, 1), rows("wI", x.heads, 1)
	for _, k := range l.keys() {
		if k.pos < x.k {
			continue
		}
		var scores []float64
		for pos := range k.pos + 1 {
			kv, score := sc.planes[1].fill(key{k.seq, pos}), 0.0
			for h, wh := range w(k) {
				dot := 0.0
				for i, v := range q(k)[h*x.dim : (h+1)*x.dim] {
					dot += float64(v) * float64(kv[i])
				}
				score += float64(wh) * max(0, dot)
			}
			scores = append(scores, score)
		}
		slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
		if gap := scores[x.k-1] - scores[x.k]; gap > 0 && gap < 2e-5 {
			out = append(out, k)
		}
	}
	return out
}

// constant repeats one row.
func constant(v ...float32) func(key) []float32 {
	return func(key) []float32 { return slices.Clone(v) }
}

// byPosition makes a row of its position.
func byPosition(f func(pos int) []float32) func(key) []float32 {
	return func(k key) []float32 { return f(k.pos) }
}

func (s suite) indexSelect(t *testing.T) {
	for _, x := range []index{{heads: 3, dim: 10, k: 5}, {heads: 1, dim: 1, k: 1}, {heads: 5, dim: 130, k: 17}} {
		t.Run(fmt.Sprintf("%d heads of %d, %d best", x.heads, x.dim, x.k), func(t *testing.T) {
			sc := x.scene()
			for _, l := range standard {
				if bad := x.nearTies(l, sc); len(bad) > 0 {
					t.Fatalf("the content leaves near ties at %v: choose another seed", bad)
				}
			}
			s.laws(t, sc, 0)
		})
	}
	t.Run("KVBF16", func(t *testing.T) {
		x := index{heads: 3, dim: 10, k: 5}
		sc := x.scene()
		sc.format = backend.KVBF16
		s.laws(t, sc, 0)
	})
	t.Run("Deep", func(t *testing.T) {
		x := index{heads: 3, dim: 10, k: 64}
		if bad := x.nearTies(deep, x.scene()); len(bad) > 0 {
			t.Fatalf("near ties at %v: choose another seed", bad)
		}
		s.formula(t, x.scene(), 0, deep)
	})
	t.Run("EverythingVisibleUpToK", s.indexUpToK)
	t.Run("ManyTies", s.indexManyTies)
	t.Run("AllNaNFailsRow", s.indexAllNaN)

	minusZero := float32(math.Copysign(0, -1))
	one := func(v float32) []float32 { return []float32{v, 0} }
	for _, c := range []struct {
		name string
		x    index
		row  key
		want []int32
	}{
		{"TiesLowerPosition", index{heads: 1, dim: 2, k: 4, q: constant(1, 0), w: constant(1), keys: constant(1, 0)}, key{2, 20}, []int32{0, 1, 2, 3}},
		// Every product is negative, so every score is 0.
		{"AllZeroScores", index{heads: 2, dim: 2, k: 4, q: constant(1, 0, 2, 0), w: constant(1, 3), keys: byPosition(func(p int) []float32 { return one(float32(-p - 1)) })}, key{2, 21}, []int32{0, 1, 2, 3}},
		// Zeros of both signs, and -1 at the even positions.
		{"NegativeZeroTies", index{heads: 1, dim: 2, k: 5, q: constant(1, 1), w: constant(-1), keys: byPosition(func(p int) []float32 {
			return [][]float32{{1, 0}, {minusZero, minusZero}, {1, 0}, {0, 0}, {1, 0}, {-3, 0}}[p%6]
		})}, key{2, 18}, []int32{1, 3, 5, 7, 9}},
		// Without the ReLU the large negative products would win by the negative
		// weight.
		{"ReLU", index{heads: 1, dim: 2, k: 3, q: constant(1, 0), w: constant(-1), keys: byPosition(func(p int) []float32 {
			if p%2 == 0 {
				return one(float32(p + 1))
			}
			return one(float32(-p))
		})}, key{2, 17}, []int32{1, 3, 5}},
		// A negative weight counts against a key: the smallest products win.
		{"NegativeHeadWeight", index{heads: 2, dim: 2, k: 3, q: constant(1, 0, 0, 1), w: constant(-1, 0.5), keys: byPosition(func(p int) []float32 { return []float32{float32(max(p-10, 10-p) + 1), 1} })}, key{2, 21}, []int32{9, 10, 11}},
		// Scores grow with the position: the row's own is the best it may see,
		// although its chunk holds larger ones.
		{"CausalAndAscending", index{heads: 1, dim: 2, k: 4, q: constant(1, 0), w: constant(1), keys: byPosition(func(p int) []float32 { return one(float32(p + 1)) })}, key{2, 12}, []int32{9, 10, 11, 12}},
		// All other scores are negative; a NaN taken for 0 would win.
		{"NaNNeverWins", index{heads: 1, dim: 2, k: 3, q: constant(1, 0), w: constant(-1), keys: byPosition(func(p int) []float32 {
			if p == 5 || p == 11 || p == 0 {
				return one(nan)
			}
			return one(float32(p))
		})}, key{2, 16}, []int32{1, 2, 3}},
		{"FewerThanKUsable", index{heads: 1, dim: 2, k: 3, q: constant(1, 0), w: constant(1), keys: byPosition(func(p int) []float32 {
			if p == 6 || p == 13 {
				return one(1)
			}
			return one(nan)
		})}, key{2, 16}, []int32{6, 13}},
		{"InfiniteScores", index{heads: 1, dim: 1, k: 3, q: constant(1), w: constant(1), keys: byPosition(func(p int) []float32 {
			return []float32{[]float32{1, 2, posInf, negInf, 3}[p%5]}
		})}, key{2, 16}, []int32{2, 7, 12}},
		{"NegativeInfinityLoses", index{heads: 1, dim: 1, k: 4, q: constant(1), w: constant(-1), keys: byPosition(func(p int) []float32 {
			switch p {
			case 3, 9:
				return []float32{5}
			case 6, 8, 10:
				return []float32{posInf}
			}
			return []float32{nan}
		})}, key{2, 16}, []int32{3, 6, 8, 9}},
		// Scores eight steps of f32 apart: rounded any coarser they tie.
		{"F32Scores", index{heads: 1, dim: 1, k: 3, q: constant(1), w: constant(1), keys: byPosition(func(p int) []float32 { return []float32{1 + float32(p)*0x1p-20} })}, key{2, 16}, []int32{14, 15, 16}},
		{"KIsOne", index{heads: 1, dim: 2, k: 1, q: constant(1, 0), w: constant(1), keys: byPosition(func(p int) []float32 { return one(float32(p % 7)) })}, key{2, 21}, []int32{6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := s.rig(t, c.x.scene()).play(ragged, variation{})
			if sel := have.lists["selection"][c.row]; !slices.Equal(sel, c.want) {
				t.Errorf("selection at position %d = %v, want %v", c.row.pos, sel, c.want)
			}
			// A NaN is left out, and shows that a visible key was never written.
			want := backend.Health(0)
			for pos := range c.row.pos + 1 {
				if slices.ContainsFunc(c.x.keys(key{c.row.seq, pos}), func(v float32) bool { return v != v }) {
					want = backend.NonFinite
				}
			}
			if h := have.health[c.row]; h != want {
				t.Errorf("position %d is %v, want %v", c.row.pos, h, want)
			}
			have.mustBeClean(t)
		})
	}
}

// indexUpToK: up to K visible keys are all kept and none is scored, so not even
// a NaN is left out; from K+1 on there are K.
func (s suite) indexUpToK(t *testing.T) {
	x := index{heads: 1, dim: 2, k: 6, q: constant(1, 0), w: constant(1), keys: byPosition(func(p int) []float32 {
		if p == 1 {
			return []float32{nan, 0}
		}
		return []float32{float32(p), 0}
	})}
	l := layout{name: "up to K", spans: []span{{0, 0, 9, 1}, {1, 5, 6, 0}, {2, 4, 5, 0}, {3, 6, 7, 0}}}
	o := s.rig(t, x.scene()).play(l, variation{})
	for _, k := range l.keys() {
		want := everything(k)
		if k.pos >= x.k {
			want = want[len(want)-x.k:]
		}
		if k.pos == 6 {
			want = []int32{0, 2, 3, 4, 5, 6} // 0 is the sixth best, because 1 is a NaN
		}
		if have := o.lists["selection"][k]; !slices.Equal(have, want) {
			t.Errorf("selection of %v = %v, want %v", k, have, want)
		}
	}
}

// indexManyTies has small whole numbers, whose sums are exact in any order: most
// scores tie, at every rank.
func (s suite) indexManyTies(t *testing.T) {
	whole := func(label string, n int) func(key) []float32 {
		return func(k key) []float32 {
			rng, out := source(label, k.seq, k.pos), make([]float32, n)
			for i := range out {
				out[i] = float32(rng.IntN(3) - 1)
			}
			return out
		}
	}
	for _, k := range []int{1, 2, 7, 16, 31, 64, 100} {
		x := index{heads: 3, dim: 4, k: k, q: whole("q", 12), w: whole("w", 3), keys: whole("keys", 4)}
		s.formula(t, x.scene(), 0, ragged, deep)
	}
}

// indexAllNaN: a row that can score no key selects none and fails alone.
func (s suite) indexAllNaN(t *testing.T) {
	bad := key{2, 9}
	d := oddLatent
	x := index{heads: 2, dim: 4, k: 5}
	q := rows("qI", 8, 1)
	x.q = func(k key) []float32 {
		if k == bad {
			return fill(8, nan)
		}
		return q(k)
	}
	sc := x.scene()
	sc.planes = append(sc.planes, plane{width: d.c + d.rope, fill: rows("latent", d.c+d.rope, 1)})
	build := sc.build
	sc.build = func(r *rig) backend.Program {
		program := build(r)
		sel := program[0].(*backend.IndexSelect).Dst
		return append(program, r.mlaAttend(d, r.in("q attention", d.qDim(), rows("q", d.qDim(), 2)), sel, 2, d.scale()))
	}
	o := s.failsAlone(t, sc, bad, backend.NonFinite)
	if have := o.lists["selection"][bad]; len(have) != 0 {
		t.Errorf("a row of NaN selected %v", have)
	}
}
