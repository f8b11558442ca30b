package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

const (
	// poolBytes of weights are multiplied in turn, far more than any cache holds.
	poolBytes = 320 << 20
	probeSize = 256 << 20
	// chainBytes of weights and less are multiplied in one program, as in a step of a
	// model, where one product follows another.
	chainBytes = 24 << 20
	maxRows    = 512
)

// products runs the backend on memory of its own.
type products struct {
	b      *cpu.Backend
	crew   *crew
	mem    *offheap.Region // weights
	probe  *offheap.Region // what is only read
	probed int
	pages  backend.Pages // of no use but to run programs
	latent backend.Pages // of attention, once it was asked for
	filled format        // what mem holds
}

func newProducts(threads int) (p *products, err error) {
	p = &products{b: cpu.Open(threads), crew: newCrew(threads)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.mem, err = offheap.AllocHuge(poolBytes); err != nil {
		return p, err
	}
	if p.probe, err = offheap.AllocHuge(probeSize); err != nil {
		return p, err
	}
	p.pages, err = p.b.NewPages(backend.PageSpec{Pages: 1, PageSize: maxRows, Format: backend.KVF32, Planes: []int{1}})
	return p, err
}

func (p *products) close() (err error) {
	p.crew.close()
	for _, pages := range []backend.Pages{p.pages, p.latent} {
		if pages != nil {
			err = errors.Join(err, pages.Close())
		}
	}
	err = errors.Join(err, p.b.Close())
	for _, r := range []*offheap.Region{p.mem, p.probe} {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	return err
}

// random returns a buffer of normal values.
func (p *products) random(rows, cols int) (backend.Buffer, error) {
	x, err := p.b.NewBuffer(rows, cols)
	if err != nil {
		return x, err
	}
	r := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	p.b.Write(x, values)
	return x, nil
}

// execute runs a program to its end.
func (p *products) execute(program backend.Program, step *backend.Step, pages backend.Pages) error {
	if err := p.b.Start(program, step, pages); err != nil {
		return err
	}
	_, err := p.b.Wait()
	return err
}

// matrix is x [rows, k] times a weight [n, k].
func (p *products) matrix(name string, f format, n, k, rows int) (w work, err error) {
	if err := p.fill(f); err != nil {
		return w, err
	}
	x, err := p.random(rows, k)
	if err != nil {
		return w, err
	}
	y, err := p.b.NewBuffer(rows, n)
	if err != nil {
		return w, err
	}
	size := f.size(n, k)
	w = work{name: name, bytes: float64(size), flops: 2 * float64(n) * float64(k) * float64(rows), memory: rows <= 8}
	w.operands = poolBytes / size
	if !w.memory {
		w.operands = max(1, w.operands/rows*8)
	}
	w.chain = 1
	if w.memory {
		w.chain = max(1, min(chainBytes/size, w.operands))
	}
	w.operands /= w.chain
	programs := make([]backend.Program, w.operands)
	for i := range w.operands * w.chain {
		weight, err := p.load(name, f, n, k, i*size)
		if err != nil {
			return w, err
		}
		program := &programs[i/w.chain]
		*program = append(*program, &backend.Linear{X: x, W: weight, Dst: y})
	}
	step := stepOf(rows)
	if err := p.execute(programs[0], step, p.pages); err != nil {
		return w, err
	}
	for _, v := range p.b.Read(y, rows) {
		if v-v != 0 {
			return w, fmt.Errorf("%s: a product is %g", name, v)
		}
	}
	w.run = func(i int) error { return p.execute(programs[i], step, p.pages) }
	return w, nil
}

// stepOf is one sequence of rows from position 0 on.
func stepOf(rows int) *backend.Step {
	s := &backend.Step{
		QStart: []int32{0, int32(rows)}, KVLen: []int32{int32(rows)}, Session: []uint64{1}, Tag: []uint64{0},
		Pages: []int32{0}, PageTag: []uint64{0}, Stride: 1,
	}
	for i := range int32(rows) {
		s.IDs, s.Seq, s.Pos = append(s.IDs, 0), append(s.Seq, 0), append(s.Pos, i)
	}
	return s
}
