package backendtest

import (
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// latent are the sizes of a latent attention layer.
type latent struct {
	name                                  string
	hidden, lq, heads, nope, rope, c, v   int
	indexHeads, indexDim, topK, indexRope int
}

func (d latent) qDim() int { return d.heads * (d.nope + d.rope) }

// Sizes off every tile: odd, one, and ones whose FP8 blocks are ragged and
// straddle heads.
var (
	oddLatent  = latent{"odd", 33, 17, 3, 7, 6, 5, 9, 3, 10, 5, 4}
	tinyLatent = latent{"tiny", 1, 1, 1, 1, 2, 1, 1, 1, 2, 1, 2}
	wideLatent = latent{"wide", 257, 131, 5, 33, 8, 130, 31, 5, 36, 9, 8}
	manyLatent = latent{"many heads", 9, 5, 35, 3, 2, 7, 3, 33, 4, 5, 2}
	latents    = []latent{oddLatent, tinyLatent, wideLatent, manyLatent}
)

var testRope = 10000.0

// norms are the epsilons of a projection and the magnitudes that show them.
type norms struct {
	eps, latentEps float32
	scale          float64 // of h
	wNorm          float64 // of the first norm's weight
}

var usualNorms = norms{eps: 1e-5, latentEps: 1e-6, scale: 1, wNorm: 1}

func mlaProjectScene(d latent, n norms, st storage, format backend.KVFormat) scene {
	return scene{
		store: st, format: format,
		planes: []plane{
			{width: 3, fill: rows("another plane", 3, 1)},
			{width: d.c + d.rope, fill: rows("latent", d.c+d.rope, 1), writes: true},
		},
		build: func(r *rig) backend.Program {
			return backend.Program{r.mlaProject(d, n, r.in("h", d.hidden, rows("h", d.hidden, n.scale)), 1)}
		},
	}
}

// mlaProject makes the operation with outputs x, cq and q.
func (r *rig) mlaProject(d latent, n norms, h backend.Buffer, plane int) *backend.MLAProject {
	norm := normal(source("norm"), d.hidden, 0.25)
	for i := range norm {
		norm[i] = (norm[i] + 1) * float32(n.wNorm)
	}
	return &backend.MLAProject{
		H:         h,
		Norm:      r.loadView(exact("norm", 1, d.hidden, norm...)),
		QA:        r.load("q_a", d.lq, d.hidden),
		QNorm:     r.vector("q_norm", d.lq),
		QB:        r.load("q_b", d.qDim(), d.lq),
		KVA:       r.load("kv_a", d.c+d.rope, d.hidden),
		KVNorm:    r.vector("kv_norm", d.c),
		Eps:       n.eps,
		LatentEps: n.latentEps,
		Heads:     d.heads,
		Nope:      d.nope,
		Latent:    d.c,
		Rope:      backend.Rope{Dim: d.rope, Theta: testRope},
		Plane:     plane,
		X:         r.out("x", d.hidden),
		CQ:        r.out("cq", d.lq),
		Q:         r.out("q", d.qDim()),
	}
}

const projectUnits = 60

func (s suite) mlaProject(t *testing.T) {
	for _, d := range latents {
		t.Run(d.name, func(t *testing.T) {
			s.laws(t, mlaProjectScene(d, usualNorms, asF32, backend.KVF32), projectUnits)
		})
	}
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, mlaProjectScene(wideLatent, usualNorms, st, backend.KVF32), projectUnits, ragged)
		})
	}
	t.Run("KVBF16", func(t *testing.T) {
		s.laws(t, mlaProjectScene(oddLatent, usualNorms, asF8Block, backend.KVBF16), projectUnits)
	})
	// The mean square of h is about eps, so another eps moves x by a third; the
	// large norm weight keeps the latent norms out of it.
	t.Run("Eps", func(t *testing.T) {
		s.formula(t, mlaProjectScene(oddLatent, norms{1e-5, 1e-6, 3e-3, 1}, asF32, backend.KVF32), projectUnits, ragged)
	})
	// The mean square of the latents is about their eps, which differs from Eps.
	t.Run("LatentEps", func(t *testing.T) {
		s.formula(t, mlaProjectScene(oddLatent, norms{1e-5, 1e-6, 1, 1e-3}, asF32, backend.KVF32), projectUnits, ragged)
		s.formula(t, mlaProjectScene(oddLatent, norms{1e-6, 1e-5, 1, 3e-3}, asF32, backend.KVF32), projectUnits, ragged)
	})
	t.Run("InterleavedRope", s.mlaInterleavedRope)
	t.Run("RopeFarPosition", s.ropeFarPosition)
}

// mlaInterleavedRope feeds the rope part a vector with one element set, so that
// the place of its partner shows: element 1, not element Dim/2. The nope part
// must stay as it is.
func (s suite) mlaInterleavedRope(t *testing.T) {
	const rope = 6
	column := func(n int, at ...int) []float32 { // h has one element
		v := make([]float32, n)
		for _, i := range at {
			v[i] = 1
		}
		return v
	}
	sc := scene{
		planes: []plane{{width: 2 + rope, fill: rows("latent", 2+rope, 1), writes: true}},
		build: func(r *rig) backend.Program {
			one := func(label string, n int) backend.Weight { return r.loadView(exact(label, 1, n, fill(n, 1)...)) }
			return backend.Program{&backend.MLAProject{
				H: r.in("h", 1, func(key) []float32 { return []float32{1} }), Norm: one("norm", 1),
				QA: one("q_a", 1), QNorm: one("q_norm", 1),
				QB:  r.loadView(exact("q_b", 2*(4+rope), 1, column(2*(4+rope), 0, 1, 2, 3, 4, 10, 11, 12, 13, 14)...)),
				KVA: r.loadView(exact("kv_a", 2+rope, 1, column(2+rope, 0, 1, 2)...)), KVNorm: one("kv_norm", 2),
				Heads: 2, Nope: 4, Latent: 2, Rope: backend.Rope{Dim: rope, Theta: testRope},
				X: r.out("x", 1), CQ: r.out("cq", 1), Q: r.out("q", 2*(4+rope)),
			}}
		},
	}
	o := s.rig(t, sc).play(ragged, variation{})
	for _, k := range ragged.keys() {
		sin, cos := math.Sincos(float64(k.pos))
		want := []float64{cos, sin, 0, 0, 0, 0}
		for h := range 2 {
			q := o.rows["q"][k][h*(4+rope):]
			mustBe(t, k, "nope part of q", q[:4], []float64{1, 1, 1, 1})
			mustBe(t, k, "rope part of q", q[4:4+rope], want)
		}
		mustBe(t, k, "latent", o.rows["plane 0"][k][:2], []float64{1, 1})
		mustBe(t, k, "rope part of the key", o.rows["plane 0"][k][2:], want)
	}
}

// mustBe compares with numbers worked out in the test.
func mustBe(t testing.TB, k key, what string, have []float32, want []float64) {
	t.Helper()
	if len(have) < len(want) {
		t.Errorf("%s of %v = %v, want %v", what, k, have, want)
		return
	}
	for i := range want {
		if d := math.Abs(float64(have[i]) - want[i]); !(d <= 1e-5*max(1, math.Abs(want[i]))) {
			t.Errorf("%s of %v = %v, want %v", what, k, have, want)
			return
		}
	}
}

// ropeFarPosition: an f32 angle near 1,000,000 has steps of 0.06, so a product
// in another precision is off by far more than the bound.
func (s suite) ropeFarPosition(t *testing.T) {
	const pos = 1_048_573
	d := latent{hidden: 5, lq: 3, heads: 1, nope: 1, rope: 16, c: 2}
	sc := mlaProjectScene(d, usualNorms, asF32, backend.KVF32)
	sc.pageSize = 16
	l := layout{name: "far", spans: []span{{0, 0, 1, 0}}}
	// The one row claims a far position; every page before its own may be any
	// page of the sequence, here always the first.
	far := variation{tamper: func(s *backend.Step) {
		page, tag := s.Pages[0], s.PageTag[0]
		s.Stride = pos/16 + 1
		s.Pages, s.PageTag = make([]int32, s.Stride), make([]uint64, s.Stride)
		for i := range s.Pages {
			s.Pages[i], s.PageTag[i] = page, tag
		}
		s.Pos[0], s.KVLen[0] = pos, pos+1
	}}
	have, want := s.rig(t, sc).play(l, far), s.reference(t, sc).play(l, far)
	for _, name := range []string{"q", "x"} {
		k := key{0, 0}
		h, w := have.rows[name][k], want.rows[name][k]
		for i := range w {
			if !within(h[i], w[i], 1e-4*largestOf(w), false) {
				t.Errorf("%s, element %d = %v, want %v", name, i, h[i], w[i])
			}
		}
	}
}

func indexProjectScene(d latent, scale float64, st storage, format backend.KVFormat) scene {
	return scene{
		store: st, format: format,
		planes: []plane{
			{width: d.indexDim, fill: rows("index keys", d.indexDim, 1), writes: true},
			{width: 2, fill: rows("another plane", 2, 1)},
		},
		build: func(r *rig) backend.Program {
			x := r.in("x", d.hidden, rows("x", d.hidden, scale))
			cq := r.in("cq", d.lq, rows("cq", d.lq, 1))
			return backend.Program{r.indexProject(d, x, cq, 0)}
		},
	}
}

func (r *rig) indexProject(d latent, x, cq backend.Buffer, plane int) *backend.IndexProject {
	return &backend.IndexProject{
		X: x, CQ: cq,
		WQB:         r.load("wq_b", d.indexHeads*d.indexDim, d.lq),
		WK:          r.load("wk", d.indexDim, d.hidden),
		KNorm:       r.vector("k_norm", d.indexDim),
		KNormBias:   r.offset("k_norm bias", d.indexDim),
		WeightsProj: r.load("weights_proj", d.indexHeads, d.hidden),
		Heads:       d.indexHeads,
		HeadDim:     d.indexDim,
		Rope:        backend.Rope{Dim: d.indexRope, Theta: testRope},
		Plane:       plane,
		Q:           r.out("qI", d.indexHeads*d.indexDim),
		W:           r.out("wI", d.indexHeads),
	}
}

func (s suite) indexProject(t *testing.T) {
	for _, d := range latents {
		t.Run(d.name, func(t *testing.T) {
			s.laws(t, indexProjectScene(d, 1, asF32, backend.KVF32), projectUnits)
		})
	}
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, indexProjectScene(wideLatent, 1, st, backend.KVF32), projectUnits, ragged)
		})
	}
	t.Run("KVBF16", func(t *testing.T) {
		s.laws(t, indexProjectScene(oddLatent, 1, asBF16, backend.KVBF16), projectUnits)
	})
	// The variance of the key is about 1e-6, so an eps of 1e-5 or 0 shows.
	t.Run("NormEps", func(t *testing.T) {
		s.formula(t, indexProjectScene(oddLatent, 1e-3, asF32, backend.KVF32), projectUnits, ragged)
	})
	t.Run("InterleavedRope", s.indexInterleavedRope)
	t.Run("LayerNorm", s.indexLayerNorm)
	t.Run("HeadWeights", s.indexHeadWeights)
	t.Run("KVBF16RoundsToEven", s.kvRoundsToEven)
}

// indexScene has one-element inputs of 1 and explicit weights.
func indexScene(heads, dim int, rope int, q, k, kw, kb, w []float32) scene {
	return scene{
		planes: []plane{{width: dim, fill: rows("index keys", dim, 1), writes: true}},
		build: func(r *rig) backend.Program {
			one := func(key) []float32 { return []float32{1} }
			return backend.Program{&backend.IndexProject{
				X: r.in("x", 1, one), CQ: r.in("cq", 1, one),
				WQB:         r.loadView(exact("wq_b", heads*dim, 1, q...)),
				WK:          r.loadView(exact("wk", dim, 1, k...)),
				KNorm:       r.loadView(exact("k_norm", 1, dim, kw...)),
				KNormBias:   r.loadView(exact("k_norm bias", 1, dim, kb...)),
				WeightsProj: r.loadView(exact("weights_proj", heads, 1, w...)),
				Heads:       heads, HeadDim: dim, Rope: backend.Rope{Dim: rope, Theta: testRope},
				Q: r.out("qI", heads*dim), W: r.out("wI", heads),
			}}
		},
	}
}

// indexInterleavedRope: the rope part comes first, its pairs are neighbours and
// the rest passes through. The key is 0 but for its bias.
func (s suite) indexInterleavedRope(t *testing.T) {
	first := []float32{1, 0, 0, 0, 2, 3}
	sc := indexScene(2, 6, 4, append(first, first...), fill(6, 0), fill(6, 1), first, fill(2, 1))
	o := s.rig(t, sc).play(ragged, variation{})
	for _, k := range ragged.keys() {
		sin, cos := math.Sincos(float64(k.pos))
		want := []float64{cos, sin, 0, 0, 2, 3}
		mustBe(t, k, "query", o.rows["qI"][k][:6], want)
		mustBe(t, k, "query of head 1", o.rows["qI"][k][6:], want)
		mustBe(t, k, "key", o.rows["plane 0"][k], want)
	}
}

// indexLayerNorm: the mean is taken out, the variance is the population's, the
// bias is added: (1, 3) -> (-1, 1).
func (s suite) indexLayerNorm(t *testing.T) {
	sc := indexScene(1, 4, 2, fill(4, 0), []float32{1, 3, 1, 3}, []float32{1, 1, 2, 2}, []float32{0, 0, 0.5, -10}, []float32{1})
	o := s.rig(t, sc).play(single, variation{})
	mustBe(t, key{}, "key", o.rows["plane 0"][key{}], []float64{-1, 1, -1.5, -8})
}

// kvRoundsToEven: keys that lie between two bf16 values, some exactly halfway.
// The projection is 0, so the key is its norm's bias, and position 0 turns nothing.
func (s suite) kvRoundsToEven(t *testing.T) {
	values := []float32{1 + 0x1p-8, 1 + 3*0x1p-8, -1 - 0x1p-8, -1 - 3*0x1p-8, 1 + 0x1p-8 + 0x1p-20, 1 + 0x1p-8 - 0x1p-20, 0x1p-100, 3.3961775e38}
	want := []float32{1, 1 + 0x1p-6, -1, -1 - 0x1p-6, 1 + 0x1p-7, 1, 0x1p-100, posInf}
	sc := indexScene(1, 8, 2, fill(8, 0), fill(8, 0), fill(8, 1), values, []float32{1})
	sc.format = backend.KVBF16
	have := s.rig(t, sc).play(single, variation{}).rows["plane 0"][key{}]
	if !sameBits(have, want) {
		t.Errorf("stored %v, want %v", have, want)
	}
}

// indexHeadWeights are divided by the root of the number of heads and keep
// their sign.
func (s suite) indexHeadWeights(t *testing.T) {
	sc := indexScene(4, 2, 2, fill(8, 0), fill(2, 0), fill(2, 1), fill(2, 0), []float32{1, -2, 0, 8})
	o := s.rig(t, sc).play(single, variation{})
	mustBe(t, key{}, "head weights", o.rows["wI"][key{}], []float64{0.5, -1, 0, 4})
}

func gqaProjectScene(d gqa, n norms, st storage, format backend.KVFormat) scene {
	width := d.kvHeads * d.dim
	return scene{
		store: st, format: format,
		planes: []plane{
			{width: width, fill: rows("v", width, 1), writes: true},
			{width: 1, fill: rows("another plane", 1, 1)},
			{width: width, fill: rows("k", width, 1), writes: true},
		},
		build: func(r *rig) backend.Program {
			return backend.Program{r.gqaProject(d, n, r.in("h", d.hidden, rows("h", d.hidden, n.scale)), 2, 0)}
		},
	}
}

func (r *rig) gqaProject(d gqa, n norms, h backend.Buffer, kPlane, vPlane int) *backend.GQAProject {
	op := &backend.GQAProject{
		H:     h,
		Norm:  r.vector("norm", d.hidden),
		Q:     r.load("q", d.heads*d.dim, d.hidden),
		K:     r.load("k", d.kvHeads*d.dim, d.hidden),
		V:     r.load("v", d.kvHeads*d.dim, d.hidden),
		Eps:   n.eps,
		Heads: d.heads, KVHeads: d.kvHeads, HeadDim: d.dim,
		Rope:   backend.Rope{Dim: d.rope, Theta: testRope},
		KPlane: kPlane, VPlane: vPlane,
		X:   r.out("x", d.hidden),
		Dst: r.out("q", d.heads*d.dim),
	}
	if d.bias {
		op.QBias = r.offset("q bias", d.heads*d.dim)
		op.KBias = r.offset("k bias", d.kvHeads*d.dim)
		op.VBias = r.offset("v bias", d.kvHeads*d.dim)
	}
	if d.norm {
		op.QNorm = r.vector("q_norm", d.dim)
		op.KNorm = r.vector("k_norm", d.dim)
	}
	return op
}

func (s suite) gqaProject(t *testing.T) {
	for _, d := range gqas {
		t.Run(d.name, func(t *testing.T) {
			s.laws(t, gqaProjectScene(d, usualNorms, asF32, backend.KVF32), projectUnits)
		})
	}
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, gqaProjectScene(wideGQA, usualNorms, st, backend.KVF32), projectUnits, ragged)
		})
	}
	t.Run("KVBF16", func(t *testing.T) {
		s.laws(t, gqaProjectScene(oddGQA, usualNorms, asF16, backend.KVBF16), projectUnits)
	})
	t.Run("Eps", func(t *testing.T) {
		d := oddGQA
		d.bias = false
		s.formula(t, gqaProjectScene(d, norms{eps: 1e-5, scale: 3e-3}, asF32, backend.KVF32), projectUnits, ragged)
	})
	t.Run("HalfSplitRope", s.gqaHalfSplitRope)
	t.Run("NormBeforeRope", s.gqaNormBeforeRope)
}

// gqaScene has a one-element input of 1 and explicit rows.
func gqaScene(q, k, qNorm []float32, rope int) scene {
	dim := len(k)
	return scene{
		planes: []plane{{width: dim, fill: rows("k", dim, 1), writes: true}, {width: dim, fill: rows("v", dim, 1), writes: true}},
		build: func(r *rig) backend.Program {
			op := &backend.GQAProject{
				H:     r.in("h", 1, func(key) []float32 { return []float32{1} }),
				Norm:  r.loadView(exact("norm", 1, 1, 1)),
				Q:     r.loadView(exact("q", len(q), 1, q...)),
				K:     r.loadView(exact("k", dim, 1, k...)),
				V:     r.loadView(exact("v", dim, 1, k...)),
				Heads: len(q) / dim, KVHeads: 1, HeadDim: dim,
				Rope: backend.Rope{Dim: rope, Theta: testRope}, KPlane: 0, VPlane: 1,
				X: r.out("x", 1), Dst: r.out("q", len(q)),
			}
			if qNorm != nil {
				op.QNorm = r.loadView(exact("q_norm", 1, dim, qNorm...))
				op.KNorm = r.loadView(exact("k_norm", 1, dim, qNorm...))
			}
			return backend.Program{op}
		},
	}
}

// gqaHalfSplitRope: element 0 turns with element Dim/2, and elements from Dim on
// stay; the values are not rotated.
func (s suite) gqaHalfSplitRope(t *testing.T) {
	row := []float32{1, 0, 0, 0, 2, 3}
	o := s.rig(t, gqaScene(append(row, row...), row, nil, 4)).play(ragged, variation{})
	for _, k := range ragged.keys() {
		sin, cos := math.Sincos(float64(k.pos))
		want := []float64{cos, 0, sin, 0, 2, 3}
		mustBe(t, k, "query", o.rows["q"][k][:6], want)
		mustBe(t, k, "query of head 1", o.rows["q"][k][6:], want)
		mustBe(t, k, "key", o.rows["plane 0"][k], want)
		mustBe(t, k, "value", o.rows["plane 1"][k], []float64{1, 0, 0, 0, 2, 3})
	}
}

// gqaNormBeforeRope: the norm's weight scales the elements where they were, and
// the norm is each head's own: (3, 4, 3, 4) has mean square 12.5.
func (s suite) gqaNormBeforeRope(t *testing.T) {
	row := []float32{3, 4, 3, 4}
	big := []float32{300, 400, 300, 400}
	o := s.rig(t, gqaScene(append(row, big...), row, []float32{1, 0, 0, 0}, 4)).play(ragged, variation{})
	for _, k := range ragged.keys() {
		sin, cos := math.Sincos(float64(k.pos))
		n := 3 / math.Sqrt(12.5)
		want := []float64{n * cos, 0, n * sin, 0}
		mustBe(t, k, "query", o.rows["q"][k][:4], want)
		mustBe(t, k, "query of a larger head", o.rows["q"][k][4:], want)
		mustBe(t, k, "key", o.rows["plane 0"][k], want)
	}
}
