package backendtest

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// expandLatent is a shape whose keys are worth expanding.
var expandLatent = latent{"expanded", 33, 17, 3, 13, 6, 40, 21, 3, 10, 5, 4}

// In shared and later, rows share their keys: from nothing and after older ones,
// around every block and tile that comes to mind.
var (
	shared = layout{name: "shared", spans: []span{{1, 0, 66, 1}, {2, 259, 260, 0}, {3, 0, 3, 0}}, tail: 1}
	later  = layout{name: "later", spans: []span{{0, 101, 165, 0}, {3, 0, 2, 1}, {1, 3, 4, 0}}}
)

// mlaExpand asks for expanded keys and values. How a row is computed depends on
// its chunk then, so that the laws hold but for rounding; what a row may see is
// the same.
func (s suite) mlaExpand(t *testing.T) {
	if s.by.Unit > 0 {
		// Queries and latent outputs are rounded where a row is absorbed, and not where
		// its keys are expanded, which the oracle cannot tell.
		s.by.Unit *= 4
	}
	scene := func(d latent, sel func(key) []int32, k int, st storage, format backend.KVFormat) scene {
		return expandedScene(mlaAttendScene(d, sel, k, 2, d.scale(), st, format))
	}
	for _, d := range append(latents, expandLatent) {
		t.Run("Dense/"+d.name, func(t *testing.T) {
			s.formula(t, scene(d, nil, 0, asF32, backend.KVF32), attendUnits, ragged, decode, plain, shared, later)
		})
	}
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, scene(wideLatent, nil, 0, st, backend.KVBF16), attendUnits, ragged)
		})
	}
	t.Run("Sparse", func(t *testing.T) {
		s.formula(t, scene(expandLatent, sparse, 300, asF32, backend.KVF32), attendUnits, ragged, shared, later)
	})
	// Rows see everything up to a position and choose from there on.
	t.Run("SparseLater", func(t *testing.T) {
		partly := func(k key) []int32 {
			if k.pos < 57 {
				return everything(k)
			}
			return sparse(k)
		}
		s.formula(t, scene(expandLatent, partly, 300, asF32, backend.KVF32), attendUnits, ragged, shared, later)
	})
	t.Run("Guards", func(t *testing.T) {
		r := s.rig(t, scene(expandLatent, nil, 0, asF32, backend.KVF32))
		for _, l := range append(standard, shared, later) {
			r.play(l, variation{}).mustBeClean(t)
		}
	})
	t.Run("Isolation", func(t *testing.T) { s.isolation(t, scene(expandLatent, nil, 0, asF32, backend.KVF32)) })
	t.Run("BadSelectionFailsRow", func(t *testing.T) {
		bad := key{2, 8}
		s.failsAlone(t, scene(expandLatent, except(bad, everything, []int32{9}), 32, asF32, backend.KVF32), bad, backend.BadSelection)
	})
	t.Run("UnwrittenKeyFailsRow", func(t *testing.T) {
		s.unwrittenKey(t, scene(expandLatent, nil, 0, asF32, backend.KVF32), expandLatent.heads*expandLatent.v)
	})
}

// expandedScene asks for expansion wherever a scene attends.
func expandedScene(sc scene) scene {
	build := sc.build
	sc.build = func(r *rig) backend.Program {
		program := build(r)
		for _, op := range program {
			if attend, ok := op.(*backend.MLAAttend); ok {
				attend.Expand = true
			}
		}
		return program
	}
	return sc
}
