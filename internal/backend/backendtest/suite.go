package backendtest

import (
	"fmt"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/oracle"
)

// Run tests a backend. open returns a new one; the suite closes it.
func Run(t *testing.T, open func(testing.TB) backend.Backend) {
	RunRounding(t, open, Rounding{Oracle: func(testing.TB) backend.Backend { return oracle.New() }})
}

// Rounding is how a backend is compared that computes with weights and activations
// of fewer bits than it is given.
type Rounding struct {
	// Oracle opens the oracle with weights and inputs rounded in the same way.
	Oracle func(testing.TB) backend.Backend
	// Unit takes the place of f32's in bounds; 0 keeps that. An input on the border of
	// two codes may take either.
	Unit float64
}

// RunRounding is Run for a backend that rounds.
func RunRounding(t *testing.T, open func(testing.TB) backend.Backend, by Rounding) {
	s := suite{open, by}
	for _, group := range []struct {
		name string
		test func(suite, *testing.T)
	}{
		{"Step", suite.step},
		{"Pages", suite.pages},
		{"Weights", suite.weights},
		{"Embed", suite.embed},
		{"MLAProject", suite.mlaProject},
		{"IndexProject", suite.indexProject},
		{"IndexSelect", suite.indexSelect},
		{"MLAAttend", suite.mlaAttend},
		{"MLAExpand", suite.mlaExpand},
		{"GQAProject", suite.gqaProject},
		{"GQAAttend", suite.gqaAttend},
		{"Linear", suite.linear},
		{"MLP", suite.mlp},
		{"SharedExpert", suite.sharedExpert},
		{"Route", suite.route},
		{"Experts", suite.experts},
		{"FinalNorm", suite.finalNorm},
		{"Logits", suite.logits},
		{"AdjustLogits", suite.adjustLogits},
		{"Sample", suite.sample},
		{"Model", suite.model},
	} {
		t.Run(group.name, func(t *testing.T) { group.test(s, t) })
	}
}

type suite struct {
	open func(testing.TB) backend.Backend
	by   Rounding
}

// rig sets a scene up on the backend under test.
func (s suite) rig(t testing.TB, sc scene) *rig {
	t.Helper()
	b := s.open(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r := newRig(t, b, sc)
	r.unit = max(unit, s.by.Unit)
	return r
}

// reference sets the same scene up on the oracle. Its pages are f32, with the
// values that the scene's format can hold, so that what it writes is exact.
func (s suite) reference(t testing.TB, sc scene) *rig {
	t.Helper()
	round := sc.format == backend.KVBF16
	sc.format = backend.KVF32
	r := newRig(t, s.by.Oracle(t), sc)
	r.round, r.unit = round, max(unit, s.by.Unit)
	return r
}

// formula compares one layout with the oracle.
func (s suite) formula(t *testing.T, sc scene, units float64, layouts ...layout) {
	t.Helper()
	r, ref := s.rig(t, sc), s.reference(t, sc)
	for _, l := range layouts {
		have := r.play(l, variation{})
		have.mustBeNear(t, ref.play(l, variation{}), units, sc.format)
		have.mustBeHealthy(t)
	}
}

// laws are what holds for every operation.
func (s suite) laws(t *testing.T, sc scene, units float64) {
	t.Run("Formula", func(t *testing.T) {
		r, ref := s.rig(t, sc), s.reference(t, sc)
		for _, l := range standard {
			t.Run(l.name, func(t *testing.T) {
				have := r.play(l, variation{})
				have.mustBeNear(t, ref.play(l, variation{}), units, sc.format)
				have.mustBeHealthy(t)
			})
		}
	})
	// Nothing but the live rows of the outputs changes: no padding row, no row
	// past the step, no input, no page or position that the step does not own.
	t.Run("Guards", func(t *testing.T) {
		r := s.rig(t, sc)
		for _, l := range standard {
			r.play(l, variation{}).mustBeClean(t)
		}
	})
	t.Run("Isolation", func(t *testing.T) { s.isolation(t, sc) })
	// A row alone, on other pages and after other work in the same scratch.
	t.Run("Batch", func(t *testing.T) { s.batch(t, sc) })
}

// targets are rows at the edges of their sequence, chunk and page.
var targets = []key{{1, 0}, {1, 4}, {1, 6}, {0, 12}, {2, 5}, {2, 15}, {2, 21}}

// isolation changes everything that a row may not depend on. Its bits must stay.
func (s suite) isolation(t *testing.T, sc scene) {
	r := s.rig(t, sc)
	want := r.play(ragged, variation{})
	for _, k := range targets {
		for _, nan := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d.%d nan %v", k.seq, k.pos, nan), func(t *testing.T) {
				r.play(ragged, variation{target: &k, nan: nan}).mustEqual(t, want, k)
			})
		}
	}
}

// batch compares a row in a batch with the same row by itself, bit for bit.
func (s suite) batch(t *testing.T, sc scene) {
	r := s.rig(t, sc)
	want := r.play(ragged, variation{})
	r.play(ragged, variation{pageSeed: 1}).mustEqual(t, want, ragged.keys()...)
	if sc.causal {
		return // a row alone finds other keys before it
	}
	for _, k := range ragged.keys() {
		r.play(alone(k), variation{pageSeed: 2}).mustEqual(t, want, k)
	}
}
