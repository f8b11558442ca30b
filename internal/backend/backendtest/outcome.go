package backendtest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// outcome is what a play left behind, by name and key rather than by place.
type outcome struct {
	layout layout
	rows   map[string]map[key][]float32 // buffers, plan weights, written plane rows
	lists  map[string]map[key][]int32   // selections, plan experts, the sampled id
	health map[key]backend.Health
	top    map[key][]backend.TokenProb
	result *backend.Result
	spoilt []string // places that the step had no business to change
}

func (o *outcome) row(name string, k key, v []float32) {
	if o.rows[name] == nil {
		o.rows[name] = map[key][]float32{}
	}
	o.rows[name][k] = slices.Clone(v)
}

func (o *outcome) list(name string, k key, v []int32) {
	if o.lists[name] == nil {
		o.lists[name] = map[key][]int32{}
	}
	o.lists[name][k] = slices.Clone(v)
}

// collect reads everything back and compares what should not have changed.
func (r *rig) collect(l layout, step *backend.Step, table [maxSeqs][]int32, before *snapshot, res *backend.Result) *outcome {
	o := &outcome{
		layout: l, result: res,
		rows: map[string]map[key][]float32{}, lists: map[string]map[key][]int32{},
		health: map[key]backend.Health{}, top: map[key][]backend.TokenProb{},
	}
	rows := l.rows()
	if len(res.Health) != len(rows) || len(res.ID) != len(step.Out) || len(res.LogProb) != len(step.Out) || len(res.Top) != len(step.Out) {
		r.t.Fatalf("%s: result of %d healths, %d ids, %d log-probabilities, %d tops for %d rows and %d out rows",
			l.name, len(res.Health), len(res.ID), len(res.LogProb), len(res.Top), len(rows), len(step.Out))
	}
	failed := map[key]bool{} // rows of sequences that may not have been touched
	for i, k := range rows {
		switch {
		case k != nil:
			o.health[*k] = res.Health[i]
			failed[*k] = res.Health[i]&backend.TagMismatch != 0
		case res.Health[i] != 0:
			o.spoilt = append(o.spoilt, fmt.Sprintf("padding row %d is %v", i, res.Health[i]))
		}
	}
	outs := l.outKeys()
	for i, k := range outs {
		if i < len(res.ID) {
			o.list("id", k, res.ID[i:i+1])
			o.row("log-probability", k, res.LogProb[i:i+1])
			o.top[k] = slices.Clone(res.Top[i])
		}
	}
	r.collectBuffers(o, rows, outs, failed, before)
	r.collectSelections(o, rows, failed, before)
	for _, p := range r.plans {
		ids, weights := r.b.ReadPlan(p.id, len(rows))
		for i, k := range rows {
			if k != nil {
				o.list(p.name+" experts", *k, ids[i])
				o.row(p.name+" weights", *k, weights[i])
			}
		}
	}
	r.collectPages(o, l, table, failed, before)
	return o
}

func (r *rig) collectBuffers(o *outcome, rows []*key, outs []key, failed map[key]bool, before *snapshot) {
	for n, b := range r.buffers {
		after := r.b.Read(b.id, maxRows+guardRows)
		for i := range maxRows + guardRows {
			have, was := after[i*b.cols:(i+1)*b.cols], before.buffers[n][i*b.cols:(i+1)*b.cols]
			k := rowKey(rows, outs, b.out, i)
			if k != nil && b.written && !failed[*k] {
				o.row(b.name, *k, have)
			} else if !sameBits(have, was) {
				o.spoilt = append(o.spoilt, fmt.Sprintf("buffer %s, row %d (%s) was written", b.name, i, describe(k, i, len(rows))))
			}
		}
	}
}

// rowKey finds whose row i of a buffer is, or nil.
func rowKey(rows []*key, outs []key, out bool, i int) *key {
	switch {
	case out && i < len(outs):
		return &outs[i]
	case !out && i < len(rows):
		return rows[i]
	}
	return nil
}

func describe(k *key, i, rows int) string {
	switch {
	case k != nil:
		return fmt.Sprintf("sequence %d, position %d", k.seq, k.pos)
	case i < rows:
		return "padding"
	}
	return "past the step"
}

func (r *rig) collectSelections(o *outcome, rows []*key, failed map[key]bool, before *snapshot) {
	for n, s := range r.selections {
		for i, have := range r.b.ReadSelection(s.id, maxRows+guardRows) {
			var k *key
			if i < len(rows) {
				k = rows[i]
			}
			if k != nil && s.written && !failed[*k] {
				o.list(s.name, *k, have)
			} else if !slices.Equal(have, before.lists[n][i]) {
				o.spoilt = append(o.spoilt, fmt.Sprintf("selection %s, row %d (%s) was written", s.name, i, describe(k, i, len(rows))))
			}
		}
	}
}

// collectPages takes the rows that the step wrote out of the pages, checks every
// other byte, and leaves the expected bytes of written slots aside.
func (r *rig) collectPages(o *outcome, l layout, table [maxSeqs][]int32, failed map[key]bool, before *snapshot) {
	after := make([][]byte, r.scene.pages)
	for p := range after {
		after[p] = r.pages.Export(nil, p)
	}
	for _, k := range l.keys() {
		if failed[k] {
			continue
		}
		page := table[k.seq][k.pos/r.scene.pageSize]
		for i, pl := range r.scene.planes {
			if pl.writes {
				have := r.slot(after[page], i, k.pos)
				o.row(fmt.Sprint("plane ", i), k, decodeKV(have, r.scene.format))
				copy(r.slot(before.pages[page], i, k.pos), have)
			}
		}
	}
	for p := range after {
		if bytes.Equal(after[p], before.pages[p]) {
			continue
		}
		owner := "nobody's"
		for s, pages := range table {
			if slices.Contains(pages, int32(p)) {
				owner = fmt.Sprintf("sequence %d's", s)
			}
		}
		at := 0
		for after[p][at] == before.pages[p][at] {
			at++
		}
		o.spoilt = append(o.spoilt, fmt.Sprintf("page %d (%s), byte %d was written", p, owner, at))
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// mustBeClean fails the test for every place that should not have changed.
func (o *outcome) mustBeClean(t testing.TB) {
	t.Helper()
	for _, s := range o.spoilt {
		t.Errorf("%s: %s", o.layout.name, s)
	}
}

// mustBeHealthy fails the test for every row that failed.
func (o *outcome) mustBeHealthy(t testing.TB) {
	t.Helper()
	for k, h := range o.health {
		if h != 0 {
			t.Errorf("%s: sequence %d, position %d: %v", o.layout.name, k.seq, k.pos, h)
		}
	}
}

// mustEqual compares bits of the given keys.
func (o *outcome) mustEqual(t testing.TB, want *outcome, keys ...key) {
	t.Helper()
	for _, k := range keys {
		for name, rows := range want.rows {
			w, ok := rows[k]
			if h := o.rows[name][k]; ok && !sameBits(h, w) {
				i := 0
				for i < min(len(h), len(w))-1 && math.Float32bits(h[i]) == math.Float32bits(w[i]) {
					i++
				}
				t.Errorf("%s: %s of sequence %d, position %d moved: element %d is %v, was %v", o.layout.name, name, k.seq, k.pos, i, at(h, i), at(w, i))
			}
		}
		for name, lists := range want.lists {
			if w, ok := lists[k]; ok && !slices.Equal(o.lists[name][k], w) {
				t.Errorf("%s: %s of sequence %d, position %d moved: %v, was %v", o.layout.name, name, k.seq, k.pos, o.lists[name][k], w)
			}
		}
		if o.health[k] != want.health[k] {
			t.Errorf("%s: health of sequence %d, position %d: %v, was %v", o.layout.name, k.seq, k.pos, o.health[k], want.health[k])
		}
		if !slices.Equal(o.top[k], want.top[k]) {
			t.Errorf("%s: top of sequence %d, position %d: %v, was %v", o.layout.name, k.seq, k.pos, o.top[k], want.top[k])
		}
	}
}

func at(v []float32, i int) any {
	if i < len(v) {
		return v[i]
	}
	return "absent"
}

// unit is the rounding of f32, relative.
const unit = 0x1p-24

// mustBeNear compares every row with the reference. The bound is relative to the
// largest element of the reference's row: with random operands that element is
// about as large as the sum of the absolute terms divided by the root of their
// number, and f32 sums of a few hundred terms stay within a few dozen units of it.
//
// Lists are compared as they are. A plane in bf16 must be a correct rounding of
// some value within the bound.
func (o *outcome) mustBeNear(t testing.TB, want *outcome, units float64, format backend.KVFormat) {
	t.Helper()
	for name, rows := range want.rows {
		bf16 := format == backend.KVBF16 && len(name) > 5 && name[:5] == "plane"
		for k, w := range rows {
			h := o.rows[name][k]
			if len(h) != len(w) {
				t.Errorf("%s: %s of sequence %d, position %d has %d elements, want %d", o.layout.name, name, k.seq, k.pos, len(h), len(w))
				continue
			}
			bound := units * unit * largestOf(w)
			for i := range w {
				if !within(h[i], w[i], bound, bf16) {
					t.Errorf("%s: %s of sequence %d, position %d, element %d = %v, want %v within %.3g", o.layout.name, name, k.seq, k.pos, i, h[i], w[i], bound)
					break
				}
			}
		}
	}
	for name, lists := range want.lists {
		for k, w := range lists {
			if h := o.lists[name][k]; !slices.Equal(h, w) {
				t.Errorf("%s: %s of sequence %d, position %d = %v, want %v", o.layout.name, name, k.seq, k.pos, h, w)
			}
		}
	}
}

// largestOf is the largest finite absolute value.
func largestOf(v []float32) float64 {
	m := 0.0
	for _, x := range v {
		if a := math.Abs(float64(x)); a > m && !math.IsInf(a, 0) {
			m = a
		}
	}
	return m
}

func within(have, want float32, bound float64, bf16 bool) bool {
	switch {
	case math.IsInf(float64(want), 0):
		return have == want
	case want != want:
		return have != have
	case bf16:
		return have >= roundBF16(float32(float64(want)-bound)) && have <= roundBF16(float32(float64(want)+bound))
	}
	return math.Abs(float64(have)-float64(want)) <= bound
}
