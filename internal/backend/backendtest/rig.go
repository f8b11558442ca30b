package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// scene is one program with the content it works on.
type scene struct {
	planes   []plane
	pages    int // 0: 60
	pageSize int // 0: 4
	format   backend.KVFormat
	store    storage // zero: F32

	// build loads weights, makes buffers and returns the program.
	build func(r *rig) backend.Program

	// causal: the program writes planes and reads them again, so a row depends
	// on the earlier rows of its sequence.
	causal   bool
	vocab    int // ids are below; 0: 16
	sampling func(key) backend.Sampling
}

// plane is one plane of the KV memory.
type plane struct {
	width  int
	fill   func(key) []float32 // content before the step
	writes bool                // the program writes the step's positions
}

// buffer is a scratch buffer of the scene.
type buffer struct {
	id      backend.Buffer
	name    string
	cols    int
	fill    func(key) []float32 // nil: poisoned before the step
	written bool                // the program writes the live rows
	out     bool                // its rows are the out rows
}

type selection struct {
	id      backend.Selection
	name    string
	fill    func(key) []int32 // nil: stale before the step
	written bool
}

type plan struct {
	id   backend.Plan
	name string
}

// rig is a scene set up on one backend. It can be played many times; every play
// finds what the play before left behind in scratch.
type rig struct {
	t     testing.TB
	b     backend.Backend
	scene scene
	round bool    // content of planes is rounded to bf16 whatever the pages' format
	unit  float64 // of bounds

	pages      backend.Pages
	program    backend.Program
	buffers    []*buffer
	selections []*selection
	plans      []*plan
}

func newRig(t testing.TB, b backend.Backend, s scene) *rig {
	t.Helper()
	if s.pages == 0 {
		s.pages = 60
	}
	if s.pageSize == 0 {
		s.pageSize = 4
	}
	if s.format == 0 {
		s.format = backend.KVF32
	}
	if s.store.dtype == 0 {
		s.store = asF32
	}
	if s.vocab == 0 {
		s.vocab = 16
	}
	if len(s.planes) == 0 {
		s.planes = []plane{{width: 1, fill: rows("unused plane", 1, 1)}}
	}
	r := &rig{t: t, b: b, scene: s, round: s.format == backend.KVBF16}
	spec := backend.PageSpec{Pages: s.pages, PageSize: s.pageSize, Format: s.format}
	for _, p := range s.planes {
		spec.Planes = append(spec.Planes, p.width)
	}
	var err error
	if r.pages, err = b.NewPages(spec); err != nil {
		t.Fatal(err)
	}
	r.program = s.build(r)
	return r
}

// load loads a weight of the scene's storage.
func (r *rig) load(label string, rows, cols int) backend.Weight {
	r.t.Helper()
	return r.loadView(view(label, rows, cols, r.scene.store))
}

func (r *rig) loadView(v backend.View) backend.Weight {
	r.t.Helper()
	w, err := r.b.LoadWeight(v)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// vector loads a norm's weight: values around 1.
func (r *rig) vector(label string, n int) backend.Weight {
	v := normal(source(label, n), n, 0.25)
	for i := range v {
		v[i]++
	}
	return r.loadView(exact(label, 1, n, v...))
}

// offset loads a bias: values around 0.
func (r *rig) offset(label string, n int) backend.Weight {
	return r.loadView(exact(label, 1, n, normal(source(label, n), n, 0.5)...))
}

func (r *rig) kvb(v backend.View, heads, nope, vdim int) backend.Weight {
	r.t.Helper()
	w, err := r.b.LoadKVB(v, heads, nope, vdim)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func (r *rig) addBuffer(b *buffer) backend.Buffer {
	r.t.Helper()
	id, err := r.b.NewBuffer(maxRows+guardRows, b.cols)
	if err != nil {
		r.t.Fatal(err)
	}
	b.id = id
	r.buffers = append(r.buffers, b)
	return id
}

// in is a buffer that the program only reads.
func (r *rig) in(name string, cols int, fill func(key) []float32) backend.Buffer {
	return r.addBuffer(&buffer{name: name, cols: cols, fill: fill})
}

// out is a buffer that the program writes before it reads it.
func (r *rig) out(name string, cols int) backend.Buffer {
	return r.addBuffer(&buffer{name: name, cols: cols, written: true})
}

// inout is a buffer that the program reads and writes.
func (r *rig) inout(name string, cols int, fill func(key) []float32) backend.Buffer {
	return r.addBuffer(&buffer{name: name, cols: cols, fill: fill, written: true})
}

// outRows is a buffer whose rows are the out rows; fill may be nil.
func (r *rig) outRows(name string, cols int, fill func(key) []float32, written bool) backend.Buffer {
	return r.addBuffer(&buffer{name: name, cols: cols, fill: fill, written: written, out: true})
}

// selected is a selection that the program makes, or, with fill, reads.
func (r *rig) selected(name string, k int, fill func(key) []int32) backend.Selection {
	r.t.Helper()
	id, err := r.b.NewSelection(maxRows+guardRows, k)
	if err != nil {
		r.t.Fatal(err)
	}
	r.selections = append(r.selections, &selection{id: id, name: name, fill: fill, written: fill == nil})
	return id
}

func (r *rig) plan(name string, k int) backend.Plan {
	r.t.Helper()
	id, err := r.b.NewPlan(maxRows+guardRows, k)
	if err != nil {
		r.t.Fatal(err)
	}
	r.plans = append(r.plans, &plan{id: id, name: name})
	return id
}

// variation changes what the rows of a play should not notice.
type variation struct {
	// target keeps its content, and the keys it may see; with not, everything
	// else is other noise, or NaN.
	target *key
	nan    bool

	pageSeed  int                 // another scatter of the pages
	keepPages bool                // the pages stay as the last play left them
	tamper    func(*backend.Step) // changes the step, or tags, last
}

func (v variation) changes(k key) bool { return v.target != nil && *v.target != k }

// hides reports whether a position's keys are out of the target's sight.
func (v variation) hides(k key) bool {
	return v.target != nil && (k.seq != v.target.seq || k.pos > v.target.pos)
}

// content is what a row holds before the step under a variation.
func (v variation) content(usual func(key) []float32, name string, k key, changed bool) []float32 {
	row := usual(k)
	switch {
	case !changed:
		return row
	case v.nan:
		row = fill(len(row), nan)
		row[0] = posInf
		return row
	}
	return normal(source("changed "+name, k.seq, k.pos), len(row), 2)
}

// ids gives each key its input id.
func (r *rig) ids(v variation) func(key) int32 {
	return func(k key) int32 {
		label := "id"
		if v.changes(k) && !(r.scene.causal && !v.hides(k)) {
			label = "changed id"
		}
		return int32(source(label, k.seq, k.pos).IntN(r.scene.vocab))
	}
}

// play prepares every buffer, runs the program over one step and collects what
// it left.
func (r *rig) play(l layout, v variation) *outcome {
	r.t.Helper()
	table := pageTable(r.scene.pages, v.pageSeed)
	step := r.step(l, v)
	before := &snapshot{}
	r.prepare(l, v, table, before)
	if v.tamper != nil {
		v.tamper(step)
	}
	return r.collect(l, step, table, before, r.run(step))
}

// step is the step of a layout in this scene.
func (r *rig) step(l layout, v variation) *backend.Step {
	step := l.step(pageTable(r.scene.pages, v.pageSeed), r.scene.pageSize, r.ids(v))
	if r.scene.sampling == nil {
		return step
	}
	for _, k := range l.outKeys() {
		s := r.scene.sampling(k)
		if v.changes(k) {
			s = backend.Sampling{Temperature: 0.3, U: 0.9, Top: 1}
		}
		step.Sampling = append(step.Sampling, s)
	}
	return step
}

// run computes one step.
func (r *rig) run(step *backend.Step) *backend.Result {
	r.t.Helper()
	if err := r.b.Start(r.program, step, r.pages); err != nil {
		r.t.Fatalf("start: %v", err)
	}
	res, err := r.b.Wait()
	if err != nil {
		r.t.Fatalf("wait: %v", err)
	}
	return res
}

// snapshot is everything a play wrote before its step.
type snapshot struct {
	buffers [][]float32
	lists   [][][]int32
	pages   [][]byte
}

func (r *rig) prepare(l layout, v variation, table [maxSeqs][]int32, s *snapshot) {
	rows, outs := l.rows(), l.outKeys()
	for _, b := range r.buffers {
		data := fill((maxRows+guardRows)*b.cols, poison)
		at := func(i int, k key) {
			if b.fill != nil {
				seen := r.scene.causal && !v.hides(k)
				copy(data[i*b.cols:(i+1)*b.cols], v.content(b.fill, b.name, k, v.changes(k) && !seen))
			}
		}
		if b.out {
			for i, k := range outs {
				at(i, k)
			}
		} else {
			for i, k := range rows {
				if k != nil {
					at(i, *k)
				}
			}
		}
		r.b.Write(b.id, data)
		s.buffers = append(s.buffers, data)
	}
	for _, sel := range r.selections {
		lists := make([][]int32, maxRows+guardRows)
		for i := range lists {
			lists[i] = []int32{math.MaxInt32} // stale
			if i < len(rows) && rows[i] != nil && sel.fill != nil {
				lists[i] = sel.fill(*rows[i])
				if v.changes(*rows[i]) && rows[i].pos > 0 {
					lists[i] = []int32{int32(rows[i].pos)}
				}
			}
		}
		r.b.WriteSelection(sel.id, lists)
		s.lists = append(s.lists, lists)
	}
	if !v.keepPages {
		r.fillPages(l, v, table)
	}
	for p := range r.scene.pages {
		s.pages = append(s.pages, r.pages.Export(nil, p))
	}
}

// fillPages writes every byte of the KV memory: content where a sequence has
// keys, NaN everywhere else, also where the step is going to write.
func (r *rig) fillPages(l layout, v variation, table [maxSeqs][]int32) {
	data := make([][]byte, r.scene.pages)
	for p := range data {
		data[p] = make([]byte, r.pages.Spec().PageBytes())
		for i := range data[p] {
			data[p][i] = 0xff // a NaN in either format
		}
	}
	for _, sp := range l.spans {
		for pos := range sp.to {
			k := key{sp.seq, pos}
			for i, pl := range r.scene.planes {
				if pl.writes && pos >= sp.from {
					continue
				}
				row := v.content(pl.fill, fmt.Sprint("plane ", i), k, v.hides(k))
				if r.round {
					for j := range row {
						row[j] = roundBF16(row[j])
					}
				}
				encodeKV(r.slot(data[table[sp.seq][pos/r.scene.pageSize]], i, pos), row, r.scene.format)
			}
		}
	}
	for p := range data {
		if err := r.pages.Import(p, data[p]); err != nil {
			r.t.Fatal(err)
		}
		r.pages.SetTag(p, foreign)
	}
	for _, sp := range l.spans {
		for i := 0; i*r.scene.pageSize < sp.to; i++ {
			r.pages.SetTag(int(table[sp.seq][i]), tagOf(sp.seq))
		}
	}
}

// slot finds one position of one plane in the bytes of a page.
func (r *rig) slot(page []byte, plane, pos int) []byte {
	size := r.scene.format.Size()
	at := 0
	for _, p := range r.scene.planes[:plane] {
		at += p.width * r.scene.pageSize * size
	}
	width := r.scene.planes[plane].width * size
	at += pos % r.scene.pageSize * width
	return page[at : at+width]
}
