package main

import (
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// The experts of one layer of GLM-4.7-Flash.
const (
	experts, topExperts, expertInner, expertHidden = 64, 4, 1536, 2048
)

// experts is the routed experts of a layer for rows that choose theirs at random;
// bytes are those of the experts that were chosen.
func (p *products) experts(name string, f format, rows int) (w work, err error) {
	if err := p.fill(f); err != nil {
		return w, err
	}
	x, err := p.random(rows, expertHidden)
	if err != nil {
		return w, err
	}
	y, err := p.b.NewBuffer(rows, expertHidden)
	if err != nil {
		return w, err
	}
	plan, hit, err := p.route(x, rows)
	if err != nil {
		return w, err
	}
	op := &backend.Experts{X: x, Plan: plan, Dst: y}
	size, at := f.size(expertInner, expertHidden), 0
	for range experts {
		for _, m := range []struct {
			list *[]backend.Weight
			n, k int
		}{{&op.Gate, expertInner, expertHidden}, {&op.Up, expertInner, expertHidden}, {&op.Down, expertHidden, expertInner}} {
			if at+size > poolBytes {
				at = 0
			}
			weight, err := p.load(name, f, m.n, m.k, at)
			if err != nil {
				return w, err
			}
			at += size
			*m.list = append(*m.list, weight)
		}
	}
	step, program := stepOf(rows), backend.Program{op}
	return work{
		name: name, memory: rows == 1, operands: 1, chain: 1,
		bytes: float64(hit * 3 * size),
		flops: 2 * float64(rows*topExperts) * 3 * expertInner * expertHidden,
		run:   func(int) error { return p.execute(program, step, p.pages) },
	}, nil
}

// route plans rows by a router whose logits are random, and says how many experts
// were chosen.
func (p *products) route(x backend.Buffer, rows int) (plan backend.Plan, hit int, err error) {
	if plan, err = p.b.NewPlan(rows, topExperts); err != nil {
		return plan, 0, err
	}
	h, err := p.random(rows, expertHidden)
	if err != nil {
		return plan, 0, err
	}
	random := rand.New(rand.NewPCG(7, 8))
	gate := backend.View{Name: "gate", Rows: experts, Cols: expertHidden, DType: backend.F32, Data: make([]byte, 4*experts*expertHidden)}
	fillStored(random, gate.DType, gate.Data)
	bias := backend.View{Name: "bias", Rows: 1, Cols: experts, DType: backend.F32, Data: make([]byte, 4*experts)}
	ones := backend.View{Name: "norm", Rows: 1, Cols: expertHidden, DType: backend.BF16}
	for range expertHidden {
		ones.Data = append(ones.Data, 0x80, 0x3f)
	}
	var weights [3]backend.Weight
	for i, v := range []backend.View{gate, bias, ones} {
		if weights[i], err = p.b.LoadWeight(v); err != nil {
			return plan, 0, err
		}
	}
	route := &backend.Route{
		H: h, X: x, Norm: weights[2], Gate: weights[0], Bias: weights[1],
		K: topExperts, Renorm: true, Scale: 1, Eps: 1e-5, Dst: plan,
	}
	if err := p.execute(backend.Program{route}, stepOf(rows), p.pages); err != nil {
		return plan, 0, err
	}
	ids, _ := p.b.ReadPlan(plan, rows)
	chosen := map[int32]bool{}
	for _, row := range ids {
		for _, id := range row {
			chosen[id] = true
		}
	}
	return plan, len(chosen), nil
}
