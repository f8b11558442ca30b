package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// gqa are the sizes of a grouped attention layer.
type gqa struct {
	name                              string
	hidden, heads, kvHeads, dim, rope int
	bias, norm                        bool
}

var (
	oddGQA  = gqa{"odd", 33, 6, 2, 7, 4, true, true}
	airGQA  = gqa{"bias without norm", 17, 3, 3, 10, 10, true, false}
	tinyGQA = gqa{"tiny", 1, 1, 1, 2, 2, false, false}
	wideGQA = gqa{"wide", 259, 12, 1, 18, 8, true, true}
	manyGQA = gqa{"many heads", 9, 51, 3, 4, 2, false, true}
	gqas    = []gqa{oddGQA, airGQA, tinyGQA, wideGQA, manyGQA}
)

// attendUnits allows for scores of a dozen or two, whose rounding is multiplied
// by that before it reaches the weights.
const attendUnits = 150

// deep has contexts around every block length that comes to mind.
var deep = layout{name: "deep", spans: []span{{0, 31, 34, 0}, {1, 62, 66, 1}, {2, 126, 131, 0}, {3, 255, 259, 2}}}

// mlaAttendScene attends over given keys. peak sharpens the softmax.
func mlaAttendScene(d latent, sel func(key) []int32, k int, peak float64, scale float32, st storage, format backend.KVFormat) scene {
	return scene{
		store: st, format: format, pages: 360,
		planes: []plane{{width: 1, fill: rows("another plane", 1, 1)}, {width: d.c + d.rope, fill: rows("latent", d.c+d.rope, 1)}},
		build: func(r *rig) backend.Program {
			q := r.in("q", d.qDim(), rows("q", d.qDim(), peak))
			return backend.Program{r.mlaAttend(d, q, r.selectedIn(sel, k), 1, scale)}
		},
	}
}

// selectedIn is a selection that the scene gives, or none.
func (r *rig) selectedIn(sel func(key) []int32, k int) backend.Selection {
	if sel == nil {
		return 0
	}
	return r.selected("selection", k, sel)
}

func (r *rig) mlaAttend(d latent, q backend.Buffer, sel backend.Selection, plane int, scale float32) *backend.MLAAttend {
	return &backend.MLAAttend{
		Q: q, Sel: sel, Plane: plane,
		KVB:   r.kvb(view("kv_b", d.heads*(d.nope+d.v), d.c, r.scene.store), d.heads, d.nope, d.v),
		Heads: d.heads, Nope: d.nope, Rope: d.rope, V: d.v, Latent: d.c,
		Scale: scale,
		Dst:   r.out("o", d.heads*d.v),
	}
}

func (d latent) scale() float32 { return float32(1 / math.Sqrt(float64(d.nope+d.rope))) }

// sparse chooses about half of the visible positions, always the first and the
// row's own.
func sparse(k key) []int32 {
	var out []int32
	rng := source("selection", k.seq, k.pos)
	for pos := range int32(k.pos) + 1 {
		if pos == 0 || pos == int32(k.pos) || rng.IntN(2) == 0 {
			out = append(out, pos)
		}
	}
	return out
}

func everything(k key) []int32 {
	var out []int32
	for pos := range int32(k.pos) + 1 {
		out = append(out, pos)
	}
	return out
}

func (s suite) mlaAttend(t *testing.T) {
	for _, d := range latents {
		t.Run("Dense/"+d.name, func(t *testing.T) {
			s.laws(t, mlaAttendScene(d, nil, 0, 2, d.scale(), asF32, backend.KVF32), attendUnits)
		})
		t.Run("Sparse/"+d.name, func(t *testing.T) {
			s.laws(t, mlaAttendScene(d, sparse, 32, 2, d.scale(), asF32, backend.KVF32), attendUnits)
		})
	}
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, mlaAttendScene(wideLatent, nil, 0, 2, wideLatent.scale(), st, backend.KVF32), attendUnits, ragged)
		})
	}
	for _, size := range []int{1, 4, 16, 64} {
		t.Run(fmt.Sprint("PageSize/", size), func(t *testing.T) {
			sc := mlaAttendScene(oddLatent, nil, 0, 2, oddLatent.scale(), asF32, backend.KVBF16)
			sc.pageSize = size
			s.formula(t, sc, attendUnits, ragged, decode)
		})
	}
	t.Run("KVBF16", func(t *testing.T) {
		s.laws(t, mlaAttendScene(oddLatent, sparse, 32, 2, oddLatent.scale(), asF32, backend.KVBF16), attendUnits)
	})
	t.Run("Deep", func(t *testing.T) {
		s.formula(t, mlaAttendScene(oddLatent, nil, 0, 2, oddLatent.scale(), asF32, backend.KVF32), attendUnits, deep)
		s.formula(t, mlaAttendScene(oddLatent, sparse, 300, 2, oddLatent.scale(), asF32, backend.KVF32), attendUnits, deep)
	})
	// Scores of some hundreds: e^score overflows unless the largest is taken out.
	t.Run("PeakedSoftmax", func(t *testing.T) {
		s.formula(t, mlaAttendScene(oddLatent, nil, 0, 300, oddLatent.scale(), asF32, backend.KVF32), 20*attendUnits, ragged)
	})
	t.Run("Scale", func(t *testing.T) {
		s.formula(t, mlaAttendScene(oddLatent, nil, 0, 2, 0.77, asF32, backend.KVF32), attendUnits, ragged)
	})
	t.Run("ByHand", s.mlaByHand)
	t.Run("EverythingSelectedIsDense", s.everythingIsDense)
	t.Run("BadSelection", s.badSelection)
	t.Run("EmptySelectionFailsRow", func(t *testing.T) {
		s.failsAlone(t, mlaAttendScene(oddLatent, except(key{2, 8}, sparse, nil), 32, 2, 1, asF32, backend.KVF32), key{2, 8}, backend.NonFinite)
	})
	t.Run("UnwrittenKeyFailsRow", func(t *testing.T) {
		d := oddLatent
		s.unwrittenKey(t, mlaAttendScene(d, nil, 0, 2, d.scale(), asF32, backend.KVF32), d.heads*d.v)
	})
}

// mlaByHand has two heads, one latent element and two rope elements. The keys
// [c | k] are (1 | 3, 0) and (-1 | 0, 0); kv_b's rows are W_uk, W_uv per head:
// 2, 10 and 0, 4.
//
// Head 0 asks with ln2/4 and no rope: scores of ln2/2 and -ln2/2, so 2/3 and 1/3
// of the values 10 and -10. Head 1 asks by rope with ln3/3: scores of ln3 and 0,
// so 3/4 and 1/4 of the values 4 and -4.
func (s suite) mlaByHand(t *testing.T) {
	ln2, ln3 := math.Log(2), math.Log(3)
	for _, c := range []struct {
		name string
		sel  func(key) []int32
		want []float64
	}{
		{"dense", nil, []float64{10.0 / 3, 2}},
		{"both selected", everything, []float64{10.0 / 3, 2}},
		{"the second selected", func(key) []int32 { return []int32{1} }, []float64{-10, -4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := scene{
				planes: []plane{{width: 3, fill: byPosition(func(pos int) []float32 { return [][]float32{{1, 3, 0}, {-1, 0, 0}}[pos] })}},
				build: func(r *rig) backend.Program {
					return backend.Program{&backend.MLAAttend{
						Q:   r.in("q", 6, constant(float32(ln2/2), 0, 7, 5, float32(2*ln3/3), 9)),
						Sel: r.selectedIn(c.sel, 2), KVB: r.kvb(exact("kv_b", 4, 1, 2, 10, 0, 4), 2, 1, 1),
						Heads: 2, Nope: 1, Rope: 2, V: 1, Latent: 1, Scale: 0.5, Dst: r.out("o", 2),
					}}
				},
			}
			k := key{0, 1}
			mustBe(t, k, "o", s.rig(t, sc).play(alone(k), variation{}).rows["o"][k], c.want)
		})
	}
}

// everythingIsDense: a selection of all visible keys is the same list, so it
// gives the same bits as no selection.
func (s suite) everythingIsDense(t *testing.T) {
	d := oddLatent
	want := s.rig(t, mlaAttendScene(d, nil, 0, 2, d.scale(), asF32, backend.KVF32)).play(deep, variation{})
	have := s.rig(t, mlaAttendScene(d, everything, 300, 2, d.scale(), asF32, backend.KVF32)).play(deep, variation{})
	have.mustEqual(t, want, deep.keys()...)
}

// except replaces the selection of one row.
func except(k key, sel func(key) []int32, list []int32) func(key) []int32 {
	return func(have key) []int32 {
		if have == k {
			return list
		}
		return sel(have)
	}
}

// badSelection: a list that is not strictly ascending within [0, own position]
// fails its row and is not followed.
func (s suite) badSelection(t *testing.T) {
	bad := key{2, 8}
	for _, c := range []struct {
		name string
		list []int32
	}{
		{"Negative", []int32{-1, 3, 8}},
		{"VeryNegative", []int32{math.MinInt32, 3}},
		{"NextPosition", []int32{0, 3, 9}},
		{"AnotherPage", []int32{2, 21}},
		{"TooLarge", []int32{1, math.MaxInt32}},
		{"Unsorted", []int32{3, 2, 8}},
		{"Duplicate", []int32{1, 4, 4, 8}},
		{"FirstOfOne", []int32{-7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := mlaAttendScene(oddLatent, except(bad, sparse, c.list), 32, 2, 1, asF32, backend.KVF32)
			o := s.failsAlone(t, sc, bad, backend.BadSelection)
			// What the failed row holds does not depend on any key.
			sc.planes[1].fill = rows("other keys", sc.planes[1].width, 1)
			other := s.rig(t, sc).play(ragged, variation{})
			if !sameBits(other.rows["o"][bad], o.rows["o"][bad]) {
				t.Errorf("the failed row followed its list: %v with some keys, %v with others", o.rows["o"][bad], other.rows["o"][bad])
			}
		})
	}
}

// failsAlone plays a scene whose named row must fail with a health, while every
// other row holds what it holds without the fault.
func (s suite) failsAlone(t *testing.T, sc scene, bad key, want backend.Health) *outcome {
	t.Helper()
	have, ref := s.rig(t, sc).play(ragged, variation{}), s.reference(t, sc).play(ragged, variation{})
	have.mustBeClean(t)
	for k, h := range have.health {
		switch {
		case k == bad && h&want == 0:
			t.Errorf("%v is %v, want %v", k, h, want)
		case k != bad && h != 0:
			t.Errorf("%v is %v too", k, h)
		}
	}
	for _, name := range []string{"o", "log-probability"} {
		delete(ref.rows[name], bad) // what a failed row holds is not defined
	}
	have.mustBeNear(t, ref, attendUnits, sc.format)
	return have
}

// unwrittenKey leaves poison at one visible position of the scene's second plane.
// Every row that sees it must end as non-finite, and no other row. width is that of
// the output.
func (s suite) unwrittenKey(t *testing.T, sc scene, width int) {
	hole, usual := key{2, 11}, sc.planes[1].fill
	sc.planes[1].fill = func(k key) []float32 {
		if k == hole {
			return fill(sc.planes[1].width, poison)
		}
		return usual(k)
	}
	build := sc.build
	sc.build = func(r *rig) backend.Program {
		program := build(r)
		dst := r.buffers[len(r.buffers)-1].id
		return append(program, &backend.FinalNorm{H: dst, Norm: r.vector("norm", width), Eps: 1e-5, Dst: r.out("n", width)})
	}
	o := s.rig(t, sc).play(ragged, variation{})
	for k, h := range o.health {
		want := backend.Health(0)
		if k.seq == hole.seq && k.pos >= hole.pos {
			want = backend.NonFinite
		}
		if h != want {
			t.Errorf("%v is %v, want %v", k, h, want)
		}
	}
}

func gqaAttendScene(d gqa, peak float64, scale float32, format backend.KVFormat) scene {
	width := d.kvHeads * d.dim
	return scene{
		format: format, pages: 360,
		planes: []plane{{width: width, fill: rows("k", width, 1)}, {width: width, fill: rows("v", width, 1)}},
		build: func(r *rig) backend.Program {
			q := r.in("q", d.heads*d.dim, rows("q", d.heads*d.dim, peak))
			return backend.Program{r.gqaAttend(d, q, 0, 1, scale)}
		},
	}
}

func (r *rig) gqaAttend(d gqa, q backend.Buffer, kPlane, vPlane int, scale float32) *backend.GQAAttend {
	return &backend.GQAAttend{
		Q: q, KPlane: kPlane, VPlane: vPlane,
		Heads: d.heads, KVHeads: d.kvHeads, HeadDim: d.dim, Scale: scale,
		Dst: r.out("o", d.heads*d.dim),
	}
}

func (d gqa) scale() float32 { return float32(1 / math.Sqrt(float64(d.dim))) }

func (s suite) gqaAttend(t *testing.T) {
	for _, d := range gqas {
		t.Run(d.name, func(t *testing.T) {
			s.laws(t, gqaAttendScene(d, 2, d.scale(), backend.KVF32), attendUnits)
		})
	}
	t.Run("KVBF16", func(t *testing.T) { s.laws(t, gqaAttendScene(oddGQA, 2, oddGQA.scale(), backend.KVBF16), attendUnits) })
	t.Run("Deep", func(t *testing.T) {
		s.formula(t, gqaAttendScene(oddGQA, 2, oddGQA.scale(), backend.KVF32), attendUnits, deep)
	})
	t.Run("PageSize", func(t *testing.T) {
		sc := gqaAttendScene(oddGQA, 2, oddGQA.scale(), backend.KVF32)
		sc.pageSize = 16
		s.formula(t, sc, attendUnits, ragged, decode)
	})
	t.Run("PeakedSoftmax", func(t *testing.T) {
		s.formula(t, gqaAttendScene(oddGQA, 300, oddGQA.scale(), backend.KVF32), 20*attendUnits, ragged)
	})
	t.Run("Scale", func(t *testing.T) {
		s.formula(t, gqaAttendScene(oddGQA, 2, 0.77, backend.KVF32), attendUnits, ragged)
	})
	t.Run("HeadGroups", s.gqaHeadGroups)
	t.Run("ByHand", s.gqaByHand)
	t.Run("UnwrittenKeyFailsRow", func(t *testing.T) {
		d := oddGQA
		s.unwrittenKey(t, gqaAttendScene(d, 2, d.scale(), backend.KVF32), d.heads*d.dim)
	})
}

// gqaByHand: keys (2, 0) and (0, 0) and a query (ln3, 9) at scale 1/2 give scores
// of ln3 and 0, so 3/4 and 1/4 of the values (4, 0) and (0, 8).
func (s suite) gqaByHand(t *testing.T) {
	sc := gqaAttendScene(gqa{heads: 1, kvHeads: 1, dim: 2}, 1, 0.5, backend.KVF32)
	sc.planes[0].fill = byPosition(func(pos int) []float32 { return [][]float32{{2, 0}, {0, 0}}[pos] })
	sc.planes[1].fill = byPosition(func(pos int) []float32 { return [][]float32{{4, 0}, {0, 8}}[pos] })
	build := sc.build
	sc.build = func(r *rig) backend.Program {
		p := build(r)
		r.buffers[0].fill = constant(float32(math.Log(3)), 9)
		return p
	}
	k := key{0, 1}
	mustBe(t, k, "o", s.rig(t, sc).play(alone(k), variation{}).rows["o"][k], []float64{3, 2})
}

// gqaHeadGroups: with one visible key every query head returns the value of its
// key head, i / (heads / key heads): 0, 0, 0, 1, 1, 1.
func (s suite) gqaHeadGroups(t *testing.T) {
	d := gqa{heads: 6, kvHeads: 2, dim: 2}
	sc := gqaAttendScene(d, 1, 1, backend.KVF32)
	sc.planes[1].fill = func(key) []float32 { return []float32{1, 2, 3, 4} }
	o := s.rig(t, sc).play(single, variation{})
	mustBe(t, key{}, "o", o.rows["o"][key{}], []float64{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4})
}
