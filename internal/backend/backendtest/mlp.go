package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

const mlpUnits = 60

// ffn are the sizes of a feed-forward layer.
type ffn struct{ hidden, inner int }

func mlpScene(d ffn, n norms, clamp float32, add bool, st storage) scene {
	return scene{store: st, build: func(r *rig) backend.Program {
		op := &backend.MLP{
			Norm: r.vector("norm", d.hidden),
			Gate: r.load("gate", d.inner, d.hidden), Up: r.load("up", d.inner, d.hidden), Down: r.load("down", d.hidden, d.inner),
			Eps: n.eps, Clamp: clamp, Add: add,
		}
		if add { // h += MLP(h)
			op.H = r.inout("h", d.hidden, rows("h", d.hidden, n.scale))
			op.Dst = op.H
		} else {
			op.H = r.in("h", d.hidden, rows("h", d.hidden, n.scale))
			op.Dst = r.out("y", d.hidden)
		}
		return backend.Program{op}
	}}
}

func (s suite) mlp(t *testing.T) {
	s.laws(t, mlpScene(ffn{33, 65}, usualNorms, 0, false, asF32), mlpUnits)
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, mlpScene(ffn{259, 131}, usualNorms, 0, false, st), mlpUnits, ragged, single)
		})
	}
	t.Run("Sizes", func(t *testing.T) {
		for _, d := range []ffn{{1, 1}, {3, 7}, {17, 5}, {129, 31}, {5, 257}} {
			s.formula(t, mlpScene(d, usualNorms, 0, false, asBF16), mlpUnits, ragged, single)
		}
	})
	t.Run("InPlace", func(t *testing.T) { s.laws(t, mlpScene(ffn{33, 17}, usualNorms, 0, true, asF32), mlpUnits) })
	t.Run("Eps", func(t *testing.T) {
		s.formula(t, mlpScene(ffn{33, 17}, norms{eps: 1e-5, scale: 3e-3}, 0, false, asF32), mlpUnits, ragged)
	})
	t.Run("Clamp", func(t *testing.T) {
		s.formula(t, mlpScene(ffn{33, 17}, usualNorms, 0.5, false, asF32), mlpUnits, ragged)
	})
	t.Run("SwiGLU", func(t *testing.T) { s.swiGLU(t, true) })
}

func sharedScene(d ffn, clamp float32, add bool, st storage) scene {
	return scene{store: st, build: func(r *rig) backend.Program {
		op := &backend.SharedExpert{
			X:    r.in("x", d.hidden, rows("x", d.hidden, 1)),
			Gate: r.load("gate", d.inner, d.hidden), Up: r.load("up", d.inner, d.hidden), Down: r.load("down", d.hidden, d.inner),
			Clamp: clamp, Add: add,
		}
		if add {
			op.Dst = r.inout("y", d.hidden, rows("y", d.hidden, 1))
		} else {
			op.Dst = r.out("y", d.hidden)
		}
		return backend.Program{op}
	}}
}

func (s suite) sharedExpert(t *testing.T) {
	s.laws(t, sharedScene(ffn{33, 65}, 0, true, asF8Block), mlpUnits)
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			s.formula(t, sharedScene(ffn{131, 259}, 0, false, st), mlpUnits, ragged, single)
		})
	}
	t.Run("Clamp", func(t *testing.T) { s.formula(t, sharedScene(ffn{33, 17}, 0.5, false, asF32), mlpUnits, ragged) })
	t.Run("SwiGLU", func(t *testing.T) { s.swiGLU(t, false) })
}

// swiGLU: one gate g and one up u, by hand. The clamp bounds the gate from above
// only. A gate of -200 must give 0, not NaN.
func (s suite) swiGLU(t *testing.T, norm bool) {
	silu := func(g float64) float64 { return g / (1 + math.Exp(-g)) }
	for i, c := range []struct {
		g, u, clamp float32
		want        float64
	}{
		{1, 2, 0, 2 * silu(1)},
		{-1, 2, 0, 2 * silu(-1)},
		{30, -20, 0, -600},
		{30, -20, 10, silu(10) * -10},
		{3, 20, 10, silu(3) * 10},
		{-30, 5, 10, silu(-30) * 5},
		{-5, 5, 2, silu(-5) * 2},
		{-200, 1, 0, 0},
		{200, 1, 0, 200},
	} {
		sc := scene{build: func(r *rig) backend.Program {
			gate, up, down := r.loadView(exact("gate", 1, 1, c.g)), r.loadView(exact("up", 1, 1, c.u)), r.loadView(exact("down", 1, 1, 1))
			x, y := r.in("x", 1, constant(1)), r.out("y", 1)
			if norm {
				return backend.Program{&backend.MLP{H: x, Norm: r.loadView(exact("norm", 1, 1, 1)), Gate: gate, Up: up, Down: down, Clamp: c.clamp, Dst: y}}
			}
			return backend.Program{&backend.SharedExpert{X: x, Gate: gate, Up: up, Down: down, Clamp: c.clamp, Dst: y}}
		}}
		o := s.rig(t, sc).play(single, variation{})
		mustBe(t, key{}, fmt.Sprint("case ", i), o.rows["y"][key{}], []float64{c.want})
	}
}
