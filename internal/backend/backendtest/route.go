package backendtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// routing are the sizes and constants of a router.
type routing struct {
	hidden, experts, k int
	renorm             bool
	scale              float32
	gate, bias         []float32 // nil: random, the bias near 7 with a spread of 0.1
	h                  func(key) []float32
}

func (d routing) op(r *rig) *backend.Route {
	if d.h == nil {
		d.h = rows("h", d.hidden, 1)
	}
	if d.gate == nil {
		d.gate = normal(source("router"), d.experts*d.hidden, 1/math.Sqrt(float64(d.hidden)))
	}
	if d.bias == nil {
		d.bias = normal(source("router bias"), d.experts, 0.1)
		for i := range d.bias {
			d.bias[i] += 7
		}
	}
	norm := r.vector("norm", d.hidden)
	if d.hidden == 1 {
		norm = r.loadView(exact("norm", 1, 1, 1))
	}
	return &backend.Route{
		H: r.in("h", d.hidden, d.h), Norm: norm,
		Gate: r.loadView(exact("router", d.experts, d.hidden, d.gate...)),
		Bias: r.loadView(exact("router bias", 1, d.experts, d.bias...)),
		Eps:  1e-5, K: d.k, Renorm: d.renorm, Scale: d.scale,
		X: r.out("x", d.hidden), Dst: r.plan("plan", d.k),
	}
}

func (d routing) scene() scene {
	return scene{build: func(r *rig) backend.Program { return backend.Program{d.op(r)} }}
}

const routeUnits = 30

func logit(p float64) float32 { return float32(math.Log(p / (1 - p))) }

func (s suite) route(t *testing.T) {
	s.laws(t, routing{hidden: 33, experts: 17, k: 4, renorm: true, scale: 2.5}.scene(), routeUnits)
	t.Run("Sizes", func(t *testing.T) {
		for _, d := range []routing{
			{hidden: 1, experts: 2, k: 1, renorm: true, scale: 1},
			{hidden: 5, experts: 1, k: 1, renorm: true, scale: 1.8},
			{hidden: 129, experts: 65, k: 8, renorm: true, scale: 2.5},
			{hidden: 7, experts: 6, k: 6, renorm: false, scale: 1},
		} {
			s.formula(t, d.scene(), routeUnits, ragged, single)
		}
	})
	t.Run("PaddingKeepsPlan", s.routePadding)

	// One hidden element of 1, so that the gate's rows are the logits.
	half := fill(5, 0)
	for _, c := range []struct {
		name    string
		d       routing
		ids     []int32
		weights []float64
	}{
		{"BiasNotInWeight", routing{k: 2, scale: 1, gate: half, bias: []float32{6.9, 7.1, 7, 6.8, 7.05}}, []int32{1, 4}, []float64{0.5, 0.5}},
		{"BiasNotInRenorm", routing{k: 2, renorm: true, scale: 1, gate: []float32{0, logit(0.75), 0, 0, 0}, bias: []float32{0, 7, 9, 0, 0}}, []int32{2, 1}, []float64{0.4, 0.6}},
		{"BiasChooses", routing{k: 1, scale: 1, gate: []float32{3, 0, 0, 0, -3}, bias: []float32{0, 0, 0, 0, 2}}, []int32{4}, []float64{1 / (1 + math.Exp(3))}},
		// Two steps of f32 apart; the step of bf16 at 7 is 0.03.
		{"BiasKeepsF32", routing{k: 3, scale: 2, gate: half, bias: []float32{7, 7 + 0x1p-20, 7 + 0x2p-20, 7 + 0x3p-20, 7 + 0x4p-20}}, []int32{4, 3, 2}, []float64{1, 1, 1}},
		// s + b - b would lose a third of such a small s.
		{"SigmoidKeptApart", routing{k: 2, scale: 1, gate: []float32{-13, -13.5, -20, -20, -20}, bias: []float32{7.5, 7, 1, 1, 1}}, []int32{0, 1}, []float64{2.2603242979035746e-06, 1.3709572068578448e-06}},
		{"NormaliseThenScale", routing{k: 2, renorm: true, scale: 2.5, gate: half, bias: []float32{5, 4, 3, 2, 1}}, []int32{0, 1}, []float64{1.25, 1.25}},
		{"NoRenorm", routing{k: 2, scale: 2.5, gate: []float32{logit(0.2), logit(0.4), 0, 0, 0}, bias: []float32{5, 6, 0, 0, 0}}, []int32{1, 0}, []float64{1, 0.5}},
		// Sigmoids of about 1e-20: the 1e-20 in the sum counts.
		{"RenormGuard", routing{k: 1, renorm: true, scale: 1, gate: fill(5, -46.0517), bias: []float32{1, 2, 3, 4, 5}}, []int32{4}, []float64{0.5}},
		{"TiesLowerExpert", routing{k: 3, scale: 1, gate: half, bias: fill(5, 7)}, []int32{0, 1, 2}, []float64{0.5, 0.5, 0.5}},
		// The sigmoids of 40 and 50 are both 1 in f32.
		{"SaturatedTies", routing{k: 2, scale: 1, gate: []float32{-1, 40, 50, 60, 45}, bias: fill(5, 7)}, []int32{1, 2}, []float64{1, 1}},
		{"OrderOfSelection", routing{k: 5, scale: 1, gate: half, bias: []float32{2, 5, 1, 4, 3}}, []int32{1, 3, 4, 0, 2}, []float64{0.5, 0.5, 0.5, 0.5, 0.5}},
		{"NaNBiasNeverWins", routing{k: 2, scale: 1, gate: half, bias: []float32{nan, 1, 3, nan, 2}}, []int32{2, 4}, []float64{0.5, 0.5}},
		{"NaNLogitNeverWins", routing{k: 2, renorm: true, scale: 1, gate: []float32{nan, 0, 0, 0, nan}, bias: fill(5, 7)}, []int32{1, 2}, []float64{0.5, 0.5}},
		{"InfiniteBias", routing{k: 4, scale: 1, gate: half, bias: []float32{negInf, 1, posInf, 2, posInf}}, []int32{2, 4, 3, 1}, []float64{0.5, 0.5, 0.5, 0.5}},
		{"InfiniteLogits", routing{k: 2, scale: 1, gate: []float32{negInf, 0, posInf, 0, 0}, bias: fill(5, 1)}, []int32{2, 1}, []float64{1, 0.5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.d.hidden, c.d.experts, c.d.h = 1, 5, constant(1024) // eps does not count
			o := s.rig(t, c.d.scene()).play(ragged, variation{})
			for _, k := range ragged.keys() {
				if have := o.lists["plan experts"][k]; !slices.Equal(have, c.ids) {
					t.Fatalf("experts of %v = %v, want %v", k, have, c.ids)
				}
				for j, have := range o.rows["plan weights"][k] {
					if d := math.Abs(float64(have) - c.weights[j]); !(d <= 3e-5*c.weights[j]) {
						t.Fatalf("weights of %v = %v, want %v", k, o.rows["plan weights"][k], c.weights)
					}
				}
			}
		})
	}
}

// routePadding: the plan of a padding row stays as the step before left it.
func (s suite) routePadding(t *testing.T) {
	r := s.rig(t, routing{hidden: 33, experts: 17, k: 4, renorm: true, scale: 1}.scene())
	r.play(layout{name: "full", spans: []span{{0, 0, 20, 0}, {1, 0, 20, 0}}}, variation{})
	plan := r.plans[0].id
	ids, weights := r.b.ReadPlan(plan, maxRows)
	r.play(ragged, variation{})
	newIDs, newWeights := r.b.ReadPlan(plan, maxRows)
	live := ragged.rows()
	for i := range maxRows {
		if i < len(live) && live[i] != nil {
			continue
		}
		if !slices.Equal(ids[i], newIDs[i]) || !sameBits(weights[i], newWeights[i]) {
			t.Errorf("the plan of row %d (%s) was written", i, describe(nil, i, len(live)))
		}
	}
}

// expertsScene routes and computes. The experts' input is a buffer of its own,
// so that routing and computing can be set apart.
func expertsScene(d routing, inner int, clamp float32, add bool, st storage) scene {
	return scene{store: st, build: func(r *rig) backend.Program {
		route := d.op(r)
		op := &backend.Experts{X: r.in("x of the experts", d.hidden, rows("xe", d.hidden, 1)), Plan: route.Dst, Clamp: clamp, Add: add}
		for e := range d.experts {
			op.Gate = append(op.Gate, r.load(fmt.Sprint("gate ", e), inner, d.hidden))
			op.Up = append(op.Up, r.load(fmt.Sprint("up ", e), inner, d.hidden))
			op.Down = append(op.Down, r.load(fmt.Sprint("down ", e), d.hidden, inner))
		}
		if add {
			op.Dst = r.inout("y", d.hidden, rows("y", d.hidden, 1))
		} else {
			op.Dst = r.out("y", d.hidden)
		}
		return backend.Program{route, op}
	}}
}

func (s suite) experts(t *testing.T) {
	// More experts than rows can choose: some are empty.
	usual := routing{hidden: 33, experts: 37, k: 3, renorm: true, scale: 2.5}
	s.laws(t, expertsScene(usual, 17, 0, true, asF32), mlpUnits)
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) {
			d := routing{hidden: 131, experts: 5, k: 2, renorm: true, scale: 1.8}
			s.formula(t, expertsScene(d, 129, 0, false, st), mlpUnits, ragged, single)
		})
	}
	t.Run("Clamp", func(t *testing.T) { s.formula(t, expertsScene(usual, 17, 0.4, false, asF32), mlpUnits, ragged) })
	t.Run("AllRowsToOneExpert", func(t *testing.T) {
		d := usual
		d.k, d.bias = 1, fill(d.experts, 7)
		d.bias[13] = 9
		s.laws(t, expertsScene(d, 17, 0, false, asF32), mlpUnits)
	})
	t.Run("AllExpertsOfAll", func(t *testing.T) {
		d := routing{hidden: 7, experts: 4, k: 4, scale: 1}
		s.formula(t, expertsScene(d, 5, 0, false, asF32), mlpUnits, ragged, single)
	})
	t.Run("OrderOfSelection", s.expertOrder)
	t.Run("TooFewUsableExpertsFailRow", s.tooFewExperts)
	t.Run("WeightsApply", s.expertWeights)
}

// scalarExperts has one hidden element of 1 and experts that return the given
// values, each with the sigmoid's weight of its logit.
func scalarExperts(logits, bias, values []float32, renorm bool, scale float32) scene {
	d := routing{hidden: 1, experts: len(values), k: len(values), renorm: renorm, scale: scale, gate: logits, bias: bias, h: constant(1024)}
	return scene{build: func(r *rig) backend.Program {
		route := d.op(r)
		op := &backend.Experts{X: r.in("x of the experts", 1, constant(1)), Plan: route.Dst, Dst: r.out("y", 1)}
		for e, v := range values {
			op.Gate = append(op.Gate, r.loadView(exact(fmt.Sprint("gate ", e), 1, 1, 64))) // silu(64) is 64 in f32
			op.Up = append(op.Up, r.loadView(exact(fmt.Sprint("up ", e), 1, 1, 1.0/64)))
			op.Down = append(op.Down, r.loadView(exact(fmt.Sprint("down ", e), 1, 1, v)))
		}
		return backend.Program{route, op}
	}}
}

// expertOrder: 2^30, -2^30 and 1 sum to 1 in f32 only if the 1 comes last, as
// the selection has it, whatever the experts' numbers are.
func (s suite) expertOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		values, bias := make([]float32, 3), make([]float32, 3)
		for rank, e := range order {
			values[e] = []float32{0x1p30, -0x1p30, 1}[rank]
			bias[e] = float32(3 - rank)
		}
		o := s.rig(t, scalarExperts(fill(3, 40), bias, values, false, 1)).play(ragged, variation{})
		for _, k := range ragged.keys() {
			if have := o.rows["y"][k][0]; have != 1 {
				t.Errorf("experts %v: %v = %v, want 1", order, k, have)
				break
			}
		}
	}
}

// tooFewExperts: a row for which fewer than K experts have a number to compare
// has no defined output. It fails, and alone.
func (s suite) tooFewExperts(t *testing.T) {
	bad := key{2, 12}
	d := routing{hidden: 2, experts: 3, k: 2, scale: 1, gate: []float32{1, 0, 1, 0, 0, 1}, bias: fill(3, 7)}
	d.h = func(k key) []float32 {
		if k == bad {
			return []float32{nan, 1}
		}
		return []float32{1, 2}
	}
	sc := expertsScene(d, 3, 0, false, asF32)
	build := sc.build
	sc.build = func(r *rig) backend.Program {
		program := build(r)
		y := program[1].(*backend.Experts).Dst
		return append(program, &backend.FinalNorm{H: y, Norm: r.vector("final norm", 2), Eps: 1e-5, Dst: r.out("n", 2)})
	}
	o := s.rig(t, sc).play(ragged, variation{})
	for k, h := range o.health {
		if (h == backend.NonFinite) != (k == bad) {
			t.Errorf("%v is %v", k, h)
		}
	}
}

func (s suite) expertWeights(t *testing.T) {
	o := s.rig(t, scalarExperts([]float32{logit(0.75), 0}, []float32{0, 7}, []float32{100, 10}, true, 2)).play(ragged, variation{})
	for _, k := range ragged.keys() {
		mustBe(t, k, "y", o.rows["y"][k], []float64{2 * (0.6*100 + 0.4*10)})
	}
}
