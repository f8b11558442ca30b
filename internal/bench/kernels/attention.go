package main

import (
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// The attention of one layer of GLM-4.7-Flash.
const (
	mlaHeads, mlaNope, mlaRope, mlaV, mlaLatent = 20, 192, 64, 256, 512
	mlaPage                                     = 64
)

// measureAttention times absorbed MLA of one row over context keys, layers of
// pages in turn so that they come from memory.
func (p *products) measureAttention(name string, context int) (r result, err error) {
	const width = mlaLatent + mlaRope
	perPage := mlaPage * width * 4
	used := (context + mlaPage - 1) / mlaPage
	pages, err := p.b.NewPages(backend.PageSpec{Pages: poolBytes / perPage, PageSize: mlaPage, Format: backend.KVF32, Planes: []int{width}})
	if err != nil {
		return r, err
	}
	defer pages.Close()
	random := rand.New(rand.NewPCG(5, 6))
	page := make([]byte, perPage)
	formats[0].fill(random, page)
	for i := range poolBytes / perPage {
		if err := pages.Import(i, page); err != nil {
			return r, err
		}
	}
	q, err := p.b.NewBuffer(1, mlaHeads*(mlaNope+mlaRope))
	if err != nil {
		return r, err
	}
	dst, err := p.b.NewBuffer(1, mlaHeads*mlaV)
	if err != nil {
		return r, err
	}
	values := make([]float32, mlaHeads*(mlaNope+mlaRope))
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	p.b.Write(q, values)
	rows := mlaHeads * (mlaNope + mlaV)
	p.fill(formats[1])
	kvb, err := p.b.LoadKVB(backend.View{Name: "kv_b", Rows: rows, Cols: mlaLatent, DType: backend.BF16, Data: p.mem.Bytes()[:2*rows*mlaLatent]}, mlaHeads, mlaNope, mlaV)
	if err != nil {
		return r, err
	}
	program := backend.Program{&backend.MLAAttend{Q: q, KVB: kvb, Dst: dst, Heads: mlaHeads, Nope: mlaNope, Rope: mlaRope, V: mlaV, Latent: mlaLatent, Scale: 0.0625}}
	count := max(1, poolBytes/perPage/used)
	var steps []*backend.Step
	for i := range count {
		s := &backend.Step{
			IDs: []int32{0}, Seq: []int32{0}, Pos: []int32{int32(context - 1)}, QStart: []int32{0, 1}, KVLen: []int32{int32(context)},
			Session: []uint64{1}, Tag: []uint64{0}, Stride: used,
		}
		for j := range used {
			s.Pages, s.PageTag = append(s.Pages, int32(i*used+j)), append(s.PageTag, 0)
		}
		steps = append(steps, s)
	}
	var failed error
	best, median, reps := repeat(count, func(i int) {
		if err := p.b.Start(program, steps[i], pages); err != nil {
			failed = err
			return
		}
		if _, err := p.b.Wait(); err != nil {
			failed = err
		}
	})
	r = result{Name: name, Threads: *threads, Reps: reps, Best: best, Median: median}
	r.Bytes = float64(context*width*4 + 2*mlaHeads*mlaV*mlaLatent + 4*mlaHeads*mlaNope*mlaLatent)
	r.Flops = 2 * float64(mlaHeads) * (float64(context)*(width+mlaLatent) + mlaNope*mlaLatent + mlaV*mlaLatent)
	r.GFlops, r.GBytes = r.Flops/r.Median/1e9, r.Bytes/r.Median/1e9
	return r, failed
}
