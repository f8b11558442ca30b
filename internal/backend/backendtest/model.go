package backendtest

import (
	"fmt"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

const modelVocab = 67

// latentModel is a whole small model: a dense layer with an indexer, a sparse
// layer with one, and a sparse layer that carries the selection.
func latentModel(format backend.KVFormat) scene {
	d := oddLatent
	const experts, inner = 6, 13
	wide, narrow := d.c+d.rope, d.indexDim
	sc := scene{
		format: format, store: asF8Block, causal: true, vocab: modelVocab, pages: 60,
		sampling: func(key) backend.Sampling { return backend.Sampling{Top: 2} },
	}
	for _, w := range []int{wide, narrow, wide, narrow, wide} {
		sc.planes = append(sc.planes, plane{width: w, fill: rows(fmt.Sprint("plane ", len(sc.planes)), w, 1), writes: true})
	}
	sc.build = func(r *rig) backend.Program {
		h := r.out("h", d.hidden)
		program := backend.Program{r.embedding(h, d.hidden)}
		var sel backend.Selection
		for layer := range 3 {
			label := func(s string) string { return fmt.Sprint("layer ", layer, " ", s) }
			project := r.mlaProject(d, usualNorms, h, 2*layer)
			project.QA = r.load(label("q_a"), d.lq, d.hidden)
			project.KVA = r.load(label("kv_a"), wide, d.hidden)
			program = append(program, project)
			if layer < 2 {
				index := r.indexProject(d, project.X, project.CQ, 2*layer+1)
				sel = r.selected(label("selection"), d.topK, nil)
				program = append(program, index, &backend.IndexSelect{
					Q: index.Q, W: index.W, Heads: d.indexHeads, HeadDim: d.indexDim, Plane: 2*layer + 1, K: d.topK, Dst: sel,
				})
			}
			attend := r.mlaAttend(d, project.Q, sel, 2*layer, d.scale())
			program = append(program, attend, &backend.Linear{X: attend.Dst, W: r.load(label("o"), d.hidden, d.heads*d.v), Dst: h, Add: true})
			program = append(program, r.feedForward(label, layer > 0, h, d.hidden, inner, experts)...)
		}
		return append(program, r.head(h, d.hidden)...)
	}
	return sc
}

// groupedModel is the same for grouped attention.
func groupedModel(format backend.KVFormat) scene {
	d := oddGQA
	width := d.kvHeads * d.dim
	sc := scene{
		format: format, store: asBF16, causal: true, vocab: modelVocab,
		sampling: func(key) backend.Sampling { return backend.Sampling{Top: 2} },
	}
	for i := range 4 {
		sc.planes = append(sc.planes, plane{width: width, fill: rows(fmt.Sprint("plane ", i), width, 1), writes: true})
	}
	sc.build = func(r *rig) backend.Program {
		h := r.out("h", d.hidden)
		program := backend.Program{r.embedding(h, d.hidden)}
		for layer := range 2 {
			label := func(s string) string { return fmt.Sprint("layer ", layer, " ", s) }
			project := r.gqaProject(d, usualNorms, h, 2*layer, 2*layer+1)
			attend := r.gqaAttend(d, project.Dst, 2*layer, 2*layer+1, d.scale())
			program = append(program, project, attend, &backend.Linear{X: attend.Dst, W: r.load(label("o"), d.hidden, d.heads*d.dim), Dst: h, Add: true})
			program = append(program, r.feedForward(label, layer > 0, h, d.hidden, 13, 6)...)
		}
		return append(program, r.head(h, d.hidden)...)
	}
	return sc
}

func (r *rig) embedding(h backend.Buffer, hidden int) *backend.Embed {
	table := exact("embed", modelVocab, hidden, normal(source("embed"), modelVocab*hidden, 1)...)
	return &backend.Embed{Table: r.loadView(table), Dst: h}
}

// feedForward is a dense layer, or routed experts with a shared one.
func (r *rig) feedForward(label func(string) string, sparse bool, h backend.Buffer, hidden, inner, experts int) backend.Program {
	triple := func(name string) (gate, up, down backend.Weight) {
		return r.load(label(name+" gate"), inner, hidden), r.load(label(name+" up"), inner, hidden), r.load(label(name+" down"), hidden, inner)
	}
	norm := r.vector(label("norm"), hidden)
	if !sparse {
		gate, up, down := triple("mlp")
		return backend.Program{&backend.MLP{H: h, Norm: norm, Gate: gate, Up: up, Down: down, Eps: 1e-5, Dst: h, Add: true}}
	}
	bias := normal(source(label("router bias")), experts, 0.1)
	for i := range bias {
		bias[i] += 7
	}
	route := &backend.Route{
		H: h, Norm: norm, Gate: r.loadView(view(label("router"), experts, hidden, asF32)), Bias: r.loadView(exact("router bias", 1, experts, bias...)),
		Eps: 1e-5, K: 2, Renorm: true, Scale: 2.5, X: r.out(label("x"), hidden), Dst: r.plan(label("plan"), 2),
	}
	gate, up, down := triple("shared")
	routed := &backend.Experts{X: route.X, Plan: route.Dst, Dst: h, Add: true}
	for e := range experts {
		g, u, d := triple(fmt.Sprint("expert ", e))
		routed.Gate, routed.Up, routed.Down = append(routed.Gate, g), append(routed.Up, u), append(routed.Down, d)
	}
	return backend.Program{route, &backend.SharedExpert{X: route.X, Gate: gate, Up: up, Down: down, Dst: h, Add: true}, routed}
}

func (r *rig) head(h backend.Buffer, hidden int) backend.Program {
	n, l := r.out("n", hidden), r.outRows("l", modelVocab, nil, true)
	return backend.Program{
		&backend.FinalNorm{H: h, Norm: r.vector("final norm", hidden), Eps: 1e-5, Dst: n},
		&backend.Logits{N: n, Head: r.load("lm_head", modelVocab, hidden), Valid: modelVocab - 5, Dst: l},
		&backend.AdjustLogits{L: l}, &backend.Sample{L: l},
	}
}

// modelUnits allows for errors that grow from layer to layer.
const modelUnits = 500

func (s suite) model(t *testing.T) {
	for _, m := range []struct {
		name  string
		scene func(backend.KVFormat) scene
	}{{"Latent", latentModel}, {"Grouped", groupedModel}} {
		t.Run(m.name, func(t *testing.T) {
			s.laws(t, m.scene(backend.KVF32), modelUnits)
			for _, format := range []backend.KVFormat{backend.KVF32, backend.KVBF16} {
				t.Run("Chunked/"+format.String(), func(t *testing.T) { s.chunked(t, m.scene(format)) })
			}
			t.Run("HandOff", func(t *testing.T) { s.handOff(t, m.scene(backend.KVF32)) })
		})
	}
}

// chunked computes the same two sequences in one step, in chunks, token by
// token and beside each other; every row must have the same bits, also where its
// keys were rounded to bf16 in an earlier step or only just now.
func (s suite) chunked(t *testing.T, sc scene) {
	const a, b = 19, 14 // rows of the sequences 1 and 2
	r := s.rig(t, sc)
	want := r.play(layout{name: "one shot", spans: []span{{1, 0, a, 0}, {2, 0, b, 0}}}, variation{})
	want.mustBeHealthy(t)
	plays := map[string][]layout{
		"one sequence after the other": {
			{spans: []span{{2, 0, b, 0}}}, {spans: []span{{1, 0, a, 0}}},
		},
		"chunks": {
			{spans: []span{{1, 0, 7, 1}, {2, 0, 3, 0}}},
			{spans: []span{{2, 3, 4, 0}, {1, 7, 8, 2}}, tail: 1},
			{spans: []span{{1, 8, a, 0}, {2, 4, b, 0}}},
		},
	}
	for pos := range a {
		l := layout{spans: []span{{1, pos, pos + 1, 0}}}
		if pos < b {
			l.spans = append(l.spans, span{2, pos, pos + 1, 1})
		}
		plays["token by token"] = append(plays["token by token"], l)
	}
	for name, layouts := range plays {
		t.Run(name, func(t *testing.T) {
			// Poisoned once, then kept from play to play.
			r.fillPages(layout{spans: []span{{1, 0, a, 0}, {2, 0, b, 0}}}, variation{}, pageTable(r.scene.pages, 3))
			for _, l := range layouts {
				l.name = name
				o := r.play(l, variation{pageSeed: 3, keepPages: true})
				o.mustBeClean(t)
				o.mustEqual(t, want, l.keys()...)
			}
		})
	}
}

// handOff computes the first half of a sequence on one backend, carries its
// pages over byte for byte, and computes the second half on the other: from the
// backend under test to the oracle and back.
func (s suite) handOff(t *testing.T, sc scene) {
	const half, all = 10, 19
	first := layout{name: "first half", spans: []span{{1, 0, half, 0}}}
	second := layout{name: "second half", spans: []span{{1, half, all, 0}}}
	want := s.reference(t, sc).play(layout{name: "one shot", spans: []span{{1, 0, all, 0}}}, variation{})
	for k := range want.health {
		if k.pos < half {
			want.forget(k)
		}
	}
	for _, d := range []struct {
		name     string
		from, to *rig
	}{
		{"to the oracle", s.rig(t, sc), s.reference(t, sc)},
		{"from the oracle", s.reference(t, sc), s.rig(t, sc)},
	} {
		t.Run(d.name, func(t *testing.T) {
			d.from.play(first, variation{})
			// The receiver's page table is another one.
			from, to := pageTable(d.from.scene.pages, 0)[1], pageTable(d.to.scene.pages, 9)[1]
			d.to.fillPages(second, variation{pageSeed: 9}, pageTable(d.to.scene.pages, 9))
			for i := range (half + 3) / 4 {
				if err := d.to.pages.Import(int(to[i]), d.from.pages.Export(nil, int(from[i]))); err != nil {
					t.Fatal(err)
				}
			}
			have := d.to.play(second, variation{pageSeed: 9, keepPages: true})
			have.mustBeNear(t, want, modelUnits, sc.format)
			have.mustBeHealthy(t)
		})
	}
}

// forget drops a row.
func (o *outcome) forget(k key) {
	delete(o.health, k)
	delete(o.top, k)
	for _, rows := range o.rows {
		delete(rows, k)
	}
	for _, lists := range o.lists {
		delete(lists, k)
	}
}
