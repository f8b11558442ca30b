package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
)

// ours is a case on our backend: a program of all the products of a step.
type ours struct {
	b       *synthetic.Backend
	pages   backend.Pages
	program backend.Program
	at      *backend.Step
	bytes   int // of a product's weights
	count   int
	random  *rand.Rand
}

func newOurs(s shape, rows int, format synthetic.Format, threads int) (_ *ours, err error) {
	o := &ours{random: rand.New(rand.NewPCG(3, 4))}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if o.b, err = synthetic.NewBackend(threads, format); err != nil {
		return nil, err
	}
	o.b.Period = 64
	if o.pages, err = o.b.NewPages(backend.PageSpec{Pages: 1, PageSize: rows, Format: backend.KVF32, Planes: []int{1}}); err != nil {
		return nil, err
	}
	o.at = &backend.Step{
		IDs: make([]int32, rows), Seq: make([]int32, rows), QStart: []int32{0, int32(rows)}, KVLen: []int32{int32(rows)},
		Session: []uint64{1}, Tag: []uint64{0}, Pages: []int32{0}, PageTag: []uint64{0}, Stride: 1,
	}
	for i := range int32(rows) {
		o.at.Pos = append(o.at.Pos, i)
	}
	if s.experts > 0 {
		return o, o.blocks(s, rows)
	}
	return o, o.products(s, rows)
}

func (o *ours) close() {
	if o.pages != nil {
		o.pages.Close()
	}
	if o.b != nil {
		o.b.Close()
	}
}

// activations returns a buffer of random values.
func (o *ours) activations(rows, cols int) (backend.Buffer, error) {
	h, err := o.b.NewBuffer(rows, cols)
	if err != nil {
		return 0, err
	}
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(o.random.NormFloat64())
	}
	o.b.Write(h, values)
	return h, nil
}

// matrix loads a weight; the ending is that of a matrix which every format converts.
func (o *ours) matrix(name string, n, k int) (backend.Weight, error) {
	return o.b.LoadWeight(backend.View{Name: name + ".up_proj.weight", Rows: n, Cols: k, DType: backend.BF16})
}

func (o *ours) products(s shape, rows int) error {
	x, err := o.activations(rows, s.k)
	if err != nil {
		return err
	}
	y, err := o.b.NewBuffer(rows, s.n)
	if err != nil {
		return err
	}
	for o.count = 1; len(o.program) < o.count; {
		w, err := o.matrix(fmt.Sprint(len(o.program)), s.n, s.k)
		if err != nil {
			return err
		}
		o.bytes = o.b.Weight(w).Bytes
		o.count = s.count(rows, o.bytes)
		o.program = append(o.program, &backend.Linear{X: x, W: w, Dst: y})
	}
	return nil
}

// blocks makes the experts, and choices of them by a router over random rows.
func (o *ours) blocks(s shape, rows int) error {
	x, err := o.activations(rows, s.k)
	if err != nil {
		return err
	}
	y, err := o.b.NewBuffer(rows, s.k)
	if err != nil {
		return err
	}
	block := backend.Experts{X: x, Dst: y}
	for e := range s.experts {
		for i, m := range []struct {
			list *[]backend.Weight
			n, k int
		}{{&block.Gate, s.n, s.k}, {&block.Up, s.n, s.k}, {&block.Down, s.k, s.n}} {
			w, err := o.matrix(fmt.Sprintf("%d.%d", e, i), m.n, m.k)
			if err != nil {
				return err
			}
			o.bytes += o.b.Weight(w).Bytes
			*m.list = append(*m.list, w)
		}
	}
	o.count = s.count(rows, o.bytes)
	o.bytes = o.bytes / s.experts * min(s.used*rows, s.experts)
	routes, err := o.routes(s, rows)
	if err != nil {
		return err
	}
	for _, r := range routes {
		op := block
		op.Plan = r.(*backend.Route).Dst
		o.program = append(o.program, &op)
	}
	return o.run(routes)
}

// routes choose experts at random, count times.
func (o *ours) routes(s shape, rows int) (p backend.Program, err error) {
	load := func(name string, n, k int) backend.Weight {
		if err != nil {
			return 0
		}
		var w backend.Weight
		w, err = o.b.LoadWeight(backend.View{Name: name, Rows: n, Cols: k, DType: backend.BF16})
		return w
	}
	gate, bias, norm := load("mlp.gate.weight", s.experts, s.k), load("mlp.gate.bias", 1, s.experts), load("norm.weight", 1, s.k)
	for range o.count {
		if err != nil {
			return nil, err
		}
		r := &backend.Route{Norm: norm, Gate: gate, Bias: bias, K: s.used, Renorm: true, Scale: 1, Eps: 1e-5}
		if r.H, err = o.activations(rows, s.k); err != nil {
			return nil, err
		}
		if r.X, err = o.b.NewBuffer(rows, s.k); err != nil {
			return nil, err
		}
		r.Dst, err = o.b.NewPlan(rows, s.used)
		p = append(p, r)
	}
	return p, err
}

func (o *ours) run(p backend.Program) error {
	if err := o.b.Start(p, o.at, o.pages); err != nil {
		return err
	}
	_, err := o.b.Wait()
	return err
}

func (o *ours) step(reps int) (times []float64, err error) {
	for range reps {
		start := time.Now()
		if err := o.run(o.program); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start).Seconds())
	}
	return times, nil
}
