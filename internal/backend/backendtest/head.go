package backendtest

import (
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

func finalNormScene(hidden int, n norms, h func(key) []float32) scene {
	if h == nil {
		h = rows("h", hidden, n.scale)
	}
	return scene{build: func(r *rig) backend.Program {
		return backend.Program{&backend.FinalNorm{H: r.in("h", hidden, h), Norm: r.vector("norm", hidden), Eps: n.eps, Dst: r.out("o", hidden)}}
	}}
}

const normUnits = 20

// spike is the usual row with one element replaced on one row.
func spike(k key, hidden, element int, v float32) func(key) []float32 {
	usual := rows("h", hidden, 1)
	return func(have key) []float32 {
		row := usual(have)
		if have == k {
			row[element] = v
		}
		return row
	}
}

// nonFinite are what no hidden state may hold.
var nonFinite = []struct {
	name  string
	value float32
}{{"NaN", nan}, {"Inf", posInf}, {"NegativeInf", negInf}}

func (s suite) finalNorm(t *testing.T) {
	s.laws(t, finalNormScene(33, usualNorms, nil), normUnits)
	t.Run("Sizes", func(t *testing.T) {
		for _, n := range sizes {
			s.formula(t, finalNormScene(n, usualNorms, nil), normUnits, ragged)
		}
	})
	t.Run("Eps", func(t *testing.T) {
		for _, eps := range []float32{1e-5, 1e-6} {
			s.formula(t, finalNormScene(33, norms{eps: eps, scale: 2e-3}, nil), normUnits, ragged)
		}
	})
	for _, c := range nonFinite {
		t.Run(c.name+"FailsRow", func(t *testing.T) {
			for _, element := range []int{0, 16, 32} {
				bad := key{2, 13}
				s.failsAlone(t, finalNormScene(33, usualNorms, spike(bad, 33, element, c.value)), bad, backend.NonFinite)
			}
		})
	}
}

// logitsOf are the sizes of a head.
type logitsOf struct{ vocab, hidden, valid int }

func logitsScene(d logitsOf, n func(key) []float32, st storage) scene {
	if n == nil {
		n = rows("h", d.hidden, 1)
	}
	return scene{store: st, build: func(r *rig) backend.Program {
		return backend.Program{&backend.Logits{
			N: r.in("n", d.hidden, n), Head: r.load("head", d.vocab, d.hidden), Valid: d.valid, Dst: r.outRows("o", d.vocab, nil, true),
		}}
	}}
}

func (s suite) logits(t *testing.T) {
	s.laws(t, logitsScene(logitsOf{131, 65, 127}, nil, asBF16), linearUnits)
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, logitsScene(logitsOf{257, 131, 257}, nil, st), linearUnits, ragged, single)
		})
	}
	t.Run("UnknownIDsAreMinusInf", func(t *testing.T) {
		for _, valid := range []int{1, 64, 130, 131} {
			o := s.rig(t, logitsScene(logitsOf{131, 17, valid}, nil, asF32)).play(ragged, variation{})
			for _, k := range ragged.keys() {
				for id, l := range o.rows["o"][k] {
					if (l == negInf) != (id >= valid) || l != l {
						t.Fatalf("logit of id %d with %d valid = %v", id, valid, l)
					}
				}
			}
		}
	})
	t.Run("SubsetOfRows", s.logitsSubset)
	t.Run("NoRows", func(t *testing.T) {
		l := ragged
		l.noOut = true
		s.rig(t, logitsScene(logitsOf{131, 17, 131}, nil, asF32)).play(l, variation{}).mustBeClean(t)
	})
	for _, c := range nonFinite {
		t.Run(c.name+"FailsRow", func(t *testing.T) {
			bad := key{2, 13}
			sc := logitsScene(logitsOf{131, 17, 127}, spike(bad, 17, 3, c.value), asF32)
			s.failsAlone(t, sc, bad, backend.NonFinite) // by Logits itself, before anything is sampled
			o := s.failsAlone(t, sampled(sc), bad, backend.NonFinite)
			for k, id := range o.lists["id"] {
				if (id[0] == -1) != (k == bad) {
					t.Errorf("%v sampled %d", k, id[0])
				}
			}
		})
	}
	t.Run("NaNWeightFailsRows", func(t *testing.T) { s.logitsBadWeight(t, 126, backend.NonFinite) })
	t.Run("NaNWeightOfUnknownID", func(t *testing.T) { s.logitsBadWeight(t, 127, 0) })
	t.Run("FailedRowSamplesNothing", s.failedRowSamplesNothing)
}

// sampled appends the two operations that choose an id.
func sampled(sc scene) scene {
	build := sc.build
	sc.build = func(r *rig) backend.Program {
		program := build(r)
		for _, b := range r.buffers {
			if b.out {
				return append(program, &backend.AdjustLogits{L: b.id}, &backend.Sample{L: b.id})
			}
		}
		r.t.Fatal("the scene has no logits")
		return nil
	}
	sc.sampling = func(key) backend.Sampling { return backend.Sampling{} }
	return sc
}

// logitsBadWeight puts a NaN into one row of the head. Below the tokenizer's
// size it spoils every row's logits; at or above it must not matter.
func (s suite) logitsBadWeight(t *testing.T, id int, want backend.Health) {
	sc := scene{build: func(r *rig) backend.Program {
		w := normal(source("head"), 131*17, 0.3)
		w[id*17+3] = nan
		return backend.Program{&backend.Logits{
			N: r.in("n", 17, rows("h", 17, 1)), Head: r.loadView(exact("head", 131, 17, w...)), Valid: 127, Dst: r.outRows("o", 131, nil, true),
		}}
	}}
	o := s.rig(t, sampled(sc)).play(ragged, variation{})
	for k, h := range o.health {
		if h != want {
			t.Errorf("%v is %v, want %v", k, h, want)
		}
		if have := o.lists["id"][k][0]; (have >= 0) != (want == 0) || have >= 127 {
			t.Errorf("%v sampled %d", k, have)
		}
	}
}

// logitsSubset wants few rows only, one of them twice and one of them padding:
// the padding row's logits are not written and nothing is sampled for it.
func (s suite) logitsSubset(t *testing.T) {
	sc := sampled(logitsScene(logitsOf{131, 17, 131}, nil, asF32))
	r := s.rig(t, sc)
	full := r.play(ragged, variation{})
	chosen := []key{{2, 9}, {1, 3}}
	rowsOf := ragged.rows()
	at := func(k key) int32 {
		return int32(slices.IndexFunc(rowsOf, func(have *key) bool { return have != nil && *have == k }))
	}
	padding := int32(slices.Index(rowsOf, nil))
	var logits backend.Buffer
	for _, b := range r.buffers {
		if b.out {
			logits = b.id
		}
	}
	step := r.step(ragged, variation{})
	step.Out = []int32{at(chosen[0]), padding, at(chosen[1]), at(chosen[0])}
	step.Sampling = make([]backend.Sampling, 4)
	r.prepare(ragged, variation{}, pageTable(r.scene.pages, 0), &snapshot{})
	res := r.run(step)
	have := r.b.Read(logits, 5)
	for i, want := range [][]float32{full.rows["o"][chosen[0]], fill(131, poison), full.rows["o"][chosen[1]], full.rows["o"][chosen[0]], fill(131, poison)} {
		if !sameBits(have[i*131:(i+1)*131], want) {
			t.Errorf("logits of out row %d are not those of its row", i)
		}
	}
	first, second := full.lists["id"][chosen[0]][0], full.lists["id"][chosen[1]][0]
	want := []int32{first, -1, second, first}
	if !slices.Equal(res.ID, want) {
		t.Errorf("ids = %v, want %v", res.ID, want)
	}
}

// failedRowSamplesNothing: a row whose final hidden state is not finite samples
// no id, although its logits buffer holds finite numbers.
func (s suite) failedRowSamplesNothing(t *testing.T) {
	bad := key{2, 13}
	sc := scene{
		sampling: func(key) backend.Sampling { return backend.Sampling{} },
		build: func(r *rig) backend.Program {
			l := r.outRows("l", 9, rows("l", 9, 1), true)
			return backend.Program{
				&backend.FinalNorm{H: r.in("h", 5, spike(bad, 5, 2, nan)), Norm: r.vector("norm", 5), Dst: r.out("n", 5)},
				&backend.AdjustLogits{L: l}, &backend.Sample{L: l},
			}
		},
	}
	o := s.rig(t, sc).play(ragged, variation{})
	for k, id := range o.lists["id"] {
		if (id[0] == -1) != (k == bad) {
			t.Errorf("%v sampled %d", k, id[0])
		}
	}
}
