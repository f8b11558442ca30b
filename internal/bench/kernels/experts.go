package main

import (
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// The experts of one layer of GLM-4.7-Flash.
const (
	experts, topExperts, expertInner, expertHidden = 64, 4, 1536, 2048
)

// measureExperts times the routed experts of a layer for rows that choose theirs
// at random; bytes are those of the experts that were chosen.
func (p *products) measureExperts(name string, f format, rows int) (r result, err error) {
	p.fill(f)
	x, err := p.b.NewBuffer(rows, expertHidden)
	if err != nil {
		return r, err
	}
	y, err := p.b.NewBuffer(rows, expertHidden)
	if err != nil {
		return r, err
	}
	plan, err := p.b.NewPlan(rows, topExperts)
	if err != nil {
		return r, err
	}
	random := rand.New(rand.NewPCG(7, 8))
	values := make([]float32, rows*expertHidden)
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	p.b.Write(x, values)

	size := expertInner * expertHidden * f.dtype.Size()
	at := 0
	load := func(n, k int) (backend.Weight, error) {
		if at+size > poolBytes {
			at = 0
		}
		v := backend.View{Name: name, Rows: n, Cols: k, DType: f.dtype, Data: p.mem.Bytes()[at:][:size]}
		if f.dtype == backend.F8E4M3 {
			v.Scales = unitScales(n, k)
		}
		at += size
		return p.b.LoadWeight(v)
	}
	op := &backend.Experts{X: x, Plan: plan, Dst: y}
	for range experts {
		for _, m := range []struct {
			list *[]backend.Weight
			n, k int
		}{{&op.Gate, expertInner, expertHidden}, {&op.Up, expertInner, expertHidden}, {&op.Down, expertHidden, expertInner}} {
			w, err := load(m.n, m.k)
			if err != nil {
				return r, err
			}
			*m.list = append(*m.list, w)
		}
	}
	// A router whose logits are random chooses at random.
	gate := backend.View{Name: "gate", Rows: experts, Cols: expertHidden, DType: backend.F32, Data: make([]byte, 4*experts*expertHidden)}
	formats[0].fill(random, gate.Data)
	g, err := p.b.LoadWeight(gate)
	if err != nil {
		return r, err
	}
	bias, err := p.b.LoadWeight(backend.View{Name: "bias", Rows: 1, Cols: experts, DType: backend.F32, Data: make([]byte, 4*experts)})
	if err != nil {
		return r, err
	}
	ones := backend.View{Name: "norm", Rows: 1, Cols: expertHidden, DType: backend.BF16}
	for range expertHidden {
		ones.Data = append(ones.Data, 0x80, 0x3f)
	}
	norm, err := p.b.LoadWeight(ones)
	if err != nil {
		return r, err
	}
	h, err := p.b.NewBuffer(rows, expertHidden)
	if err != nil {
		return r, err
	}
	p.b.Write(h, values)
	step := stepOf(rows)
	run := func(program backend.Program) (failed error) {
		if err := p.b.Start(program, step, p.pages); err != nil {
			return err
		}
		_, err := p.b.Wait()
		return err
	}
	route := &backend.Route{H: h, X: x, Norm: norm, Gate: g, Bias: bias, K: topExperts, Renorm: true, Scale: 1, Eps: 1e-5, Dst: plan}
	if err := run(backend.Program{route}); err != nil {
		return r, err
	}
	ids, _ := p.b.ReadPlan(plan, rows)
	hit := map[int32]bool{}
	for _, row := range ids {
		for _, id := range row {
			hit[id] = true
		}
	}
	var failed error
	program := backend.Program{op}
	best, median, reps := repeat(1, func(int) {
		if err := run(program); err != nil {
			failed = err
		}
	})
	r = result{Name: name, Threads: *threads, Reps: reps, Best: best, Median: median}
	r.Bytes = float64(len(hit)) * 3 * float64(size)
	r.Flops = 2 * float64(rows*topExperts) * 3 * expertInner * expertHidden
	r.GFlops, r.GBytes = r.Flops/r.Median/1e9, r.Bytes/r.Median/1e9
	return r, failed
}

// unitScales are block scales that keep random FP8 codes near one.
func unitScales(n, k int) backend.Scales {
	values := make([]float32, n/backend.ScaleBlock*(k/backend.ScaleBlock))
	for i := range values {
		values[i] = 1e-4
	}
	return backend.ScalesOf(n/backend.ScaleBlock, k/backend.ScaleBlock, values...)
}
