package backendtest

import (
	"bytes"
	"fmt"
	"slices"

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
	unit   float64  // of bounds
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
		layout: l, result: res, unit: r.unit,
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
			mayChange := k != nil && b.written
			if mayChange {
				o.row(b.name, *k, have)
			}
			if !(mayChange && !failed[*k]) && !sameBits(have, was) {
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
		return k.String()
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
			mayChange := k != nil && s.written
			if mayChange {
				o.list(s.name, *k, have)
			}
			if !(mayChange && !failed[*k]) && !slices.Equal(have, before.lists[n][i]) {
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
		page := table[k.seq][k.pos/r.scene.pageSize]
		for i, pl := range r.scene.planes {
			if pl.writes {
				have := r.slot(after[page], i, k.pos)
				o.row(fmt.Sprint("plane ", i), k, decodeKV(have, r.scene.format))
				if !failed[k] {
					copy(r.slot(before.pages[page], i, k.pos), have)
				}
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
