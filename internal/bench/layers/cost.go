package main

import "github.com/cofferdam-ml/cofferdam/internal/backend"

// cost is what a program must read from memory and compute at least.
type cost struct {
	Weights float64 // bytes; of routed experts only those that were chosen
	Keys    float64 // bytes of KV pages
	Flops   float64 // two per multiply-add
	Experts int     // distinct routed experts, over all layers
}

// Bytes returns all that is read.
func (c cost) Bytes() float64 { return c.Weights + c.Keys }

// cost counts a program over a step that has just run. Activations, norms and what
// is written are left out: they are small.
func (m *model) cost(p backend.Program, s *backend.Step) (c cost) {
	rows := s.Rows()
	product := func(times int, list ...backend.Weight) {
		for _, h := range list {
			if w := m.b.Weight(h); w.Rows > 0 {
				c.Weights += float64(w.Bytes)
				c.Flops += 2 * float64(times) * float64(w.Rows) * float64(w.Cols)
			}
		}
	}
	for _, op := range p {
		switch op := op.(type) {
		case *backend.Embed:
			w := m.b.Weight(op.Table)
			c.Weights += float64(rows) * float64(w.Bytes/w.Rows)
		case *backend.MLAProject:
			product(rows, op.QA, op.QB, op.KVA)
		case *backend.IndexProject:
			product(rows, op.WQB, op.WK, op.WeightsProj)
		case *backend.IndexSelect:
			keys, pairs := reads(s, op.K, true)
			c.Keys += keys * float64(op.HeadDim*m.pages.Spec().Format.Size())
			c.Flops += 2 * pairs * float64(op.Heads*op.HeadDim)
		case *backend.MLAAttend:
			product(rows, op.KVB) // absorbs nope, restores v: as many products as the matrix has elements
			most := 0
			if op.Sel != 0 {
				most = m.ck.Config.Index.TopK
			}
			keys, pairs := reads(s, most, false)
			c.Keys += keys * float64((op.Latent+op.Rope)*m.pages.Spec().Format.Size())
			c.Flops += 2 * pairs * float64(op.Heads*(2*op.Latent+op.Rope))
		case *backend.Linear:
			product(rows, op.W)
		case *backend.MLP:
			product(rows, op.Gate, op.Up, op.Down)
		case *backend.SharedExpert:
			product(rows, op.Gate, op.Up, op.Down)
		case *backend.Route:
			product(rows, op.Gate)
		case *backend.Experts:
			for e, n := range m.chosen(op.Plan, rows) {
				c.Experts++
				product(n, op.Gate[e], op.Up[e], op.Down[e])
			}
		case *backend.Logits:
			product(len(s.Out), op.Head)
		}
	}
	return c
}

// chosen returns the experts of a plan and how many rows each has.
func (m *model) chosen(p backend.Plan, rows int) map[int32]int {
	ids, _ := m.b.ReadPlan(p, rows)
	n := map[int32]int{}
	for _, row := range ids {
		for _, e := range row {
			n[e]++
		}
	}
	return n
}

// reads returns how many keys are read at least and how many pairs of row and key
// there are. At most limit keys are read for a row, unless limit is 0; an indexer,
// scored, reads none for a row that sees no more than that, and all otherwise.
func reads(s *backend.Step, limit int, scored bool) (keys, pairs float64) {
	for q := range s.Seqs() {
		most := 0
		for r := s.QStart[q]; r < s.QStart[q+1]; r++ {
			n := int(s.Pos[r]) + 1
			switch {
			case scored && n <= limit:
				n = 0
			case !scored && limit > 0:
				n = min(n, limit)
			}
			most = max(most, n)
			pairs += float64(n)
		}
		keys += float64(most)
	}
	return keys, pairs
}
