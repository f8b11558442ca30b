package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

const (
	// poolBytes of weights are multiplied in turn, far more than any cache holds.
	poolBytes = 320 << 20
	maxRows   = 512
)

// format is how weights are stored.
type format struct {
	name  string
	dtype backend.DType
	fill  func(r *rand.Rand, data []byte) // with one tile of values
}

var formats = []format{
	{"F32", backend.F32, func(r *rand.Rand, data []byte) {
		for i := 0; i < len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(float32(r.NormFloat64()/50)))
		}
	}},
	{"BF16", backend.BF16, func(r *rand.Rand, data []byte) {
		for i := 0; i < len(data); i += 2 {
			binary.LittleEndian.PutUint16(data[i:], uint16(math.Float32bits(float32(r.NormFloat64()/50))>>16))
		}
	}},
	{"FP8", backend.F8E4M3, func(r *rand.Rand, data []byte) {
		for i := range data {
			for data[i] = byte(r.Uint32()); data[i]&0x7f == 0x7f; data[i] = byte(r.Uint32()) {
			}
		}
	}},
}

// products runs the backend on memory of its own.
type products struct {
	b      *cpu.Backend
	mem    *offheap.Region
	pages  backend.Pages
	filled string // the format that mem holds
	sink   float32
}

func newProducts(threads int) (*products, error) {
	mem, err := offheap.Alloc(poolBytes)
	if err != nil {
		return nil, err
	}
	p := &products{mem: mem, b: cpu.Open(threads)}
	p.pages, err = p.b.NewPages(backend.PageSpec{Pages: 1, PageSize: maxRows, Format: backend.KVF32, Planes: []int{1}})
	return p, err
}

func (p *products) close() error {
	return errors.Join(p.pages.Close(), p.b.Close(), p.mem.Close())
}

// fill writes random values, a tile of them again and again.
func (p *products) fill(f format) {
	if p.filled == f.name {
		return
	}
	const tile = 1 << 20
	data := p.mem.Bytes()
	f.fill(rand.New(rand.NewPCG(1, 2)), data[:tile])
	for at := tile; at < len(data); at += tile {
		copy(data[at:], data[:tile])
	}
	p.filled = f.name
}

// measure times x [rows, k] times a weight [n, k].
func (p *products) measure(name string, f format, n, k, rows int) (r result, err error) {
	p.fill(f)
	size := n * k * f.dtype.Size()
	count := poolBytes / size
	if rows > 8 {
		count = max(1, count/rows*8)
	}
	x, err := p.b.NewBuffer(rows, k)
	if err != nil {
		return r, err
	}
	y, err := p.b.NewBuffer(rows, n)
	if err != nil {
		return r, err
	}
	random := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, rows*k)
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	p.b.Write(x, values)
	var programs []backend.Program
	bytes := float64(size)
	for i := range count {
		v := backend.View{Name: name, Rows: n, Cols: k, DType: f.dtype, Data: p.mem.Bytes()[i*size:][:size]}
		if f.dtype == backend.F8E4M3 {
			v.Scales = unitScales(n, k)
			bytes = float64(size + len(v.Scales.Data))
		}
		w, err := p.b.LoadWeight(v)
		if err != nil {
			return r, err
		}
		programs = append(programs, backend.Program{&backend.Linear{X: x, W: w, Dst: y}})
	}
	step := stepOf(rows)
	var failed error
	best, median, reps := repeat(count, func(i int) {
		if err := p.b.Start(programs[i], step, p.pages); err != nil {
			failed = err
			return
		}
		if _, err := p.b.Wait(); err != nil {
			failed = err
		}
	})
	if failed != nil {
		return r, failed
	}
	for _, v := range p.b.Read(y, rows) {
		if v-v != 0 {
			return r, fmt.Errorf("%s: a product is %g", name, v)
		}
	}
	r = result{Name: name, Threads: *threads, Bytes: bytes, Reps: reps, Best: best, Median: median}
	r.Flops = 2 * float64(n) * float64(k) * float64(rows)
	r.GFlops, r.GBytes = r.Flops/r.Median/1e9, r.Bytes/r.Median/1e9
	return r, nil
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

// readBandwidth reads the weights' memory with all threads, as much at a time as a
// product does, and returns bytes per second, by the median.
func (p *products) readBandwidth() float64 {
	const part = 8 << 20
	data := p.mem.Bytes()
	sums := make([]float32, *threads)
	_, median, _ := repeat(len(data)/part, func(i int) {
		piece := data[i*part:][:part]
		var wg sync.WaitGroup
		for t := range *threads {
			wg.Go(func() {
				each := part / *threads / 4096 * 4096
				sums[t] = readAll(piece[t*each:][:each])
			})
		}
		wg.Wait()
	})
	p.sink += sums[0]
	return part / median
}

// peak returns the f32 operations per second of all threads, by the median; 0 where
// there is no kernel that reaches it.
func (p *products) peak() float64 {
	const rounds = 100_000
	operations := make([]float64, *threads)
	_, median, _ := repeat(1, func(int) {
		var wg sync.WaitGroup
		for t := range *threads {
			wg.Go(func() { operations[t] = multiply(rounds) })
		}
		wg.Wait()
	})
	var sum float64
	for _, n := range operations {
		sum += n
	}
	return sum / median
}
