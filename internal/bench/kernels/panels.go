package main

import (
	"math/rand/v2"
	"sync"

	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// panelFormat is how quantised weights are stored and multiplied.
type panelFormat struct {
	name string
	size int // bytes of a group of a panel
	pack func(dst []byte, rows [][]float32) []byte
	mul  func(y []float32, yStride int, w []byte, x *kernel.Quantized, line, lines int)
}

var panelFormats = []panelFormat{
	{"int4", kernel.Int4Bytes, kernel.PackInt4, kernel.MulInt4},
	{"int8", kernel.Int8Bytes, kernel.PackInt8, kernel.MulInt8},
}

// measurePanels times quantising rows of k activations and multiplying them with
// panels of n rows. The backend has no such weights yet, so threads take halves.
func (p *products) measurePanels(name string, f panelFormat, n, k, rows int) result {
	panel := k / kernel.Group * f.size
	size := n / kernel.PanelRows * panel
	data := p.mem.Bytes()
	if p.filled != f.name {
		random := rand.New(rand.NewPCG(1, 2))
		lines := make([][]float32, kernel.PanelRows)
		for i := range lines {
			lines[i] = make([]float32, 2048)
			for j := range lines[i] {
				lines[i][j] = float32(random.NormFloat64() / 50)
			}
		}
		one := f.pack(nil, lines)
		for at := 0; at < len(data); at += len(one) {
			copy(data[at:], one)
		}
		p.filled = f.name
	}
	count := len(data) / size
	if rows > 8 {
		count = max(1, count/rows*8)
	}
	random := rand.New(rand.NewPCG(3, 4))
	x, y := make([]float32, rows*k), make([]float32, rows*n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	q := new(kernel.Quantized)
	q.Resize(rows, k)
	each := func(f func(thread int)) {
		var wg sync.WaitGroup
		for t := 1; t < *threads; t++ {
			wg.Go(func() { f(t) })
		}
		f(0)
		wg.Wait()
	}
	const chunk = 128 // lines whose codes stay in the second-level cache
	best, median, reps := repeat(count, func(i int) {
		w := data[i*size:][:size]
		each(func(t int) {
			for r := t; r < rows; r += *threads {
				q.Set(r, x[r*k:][:k])
			}
		})
		each(func(t int) {
			panels := n / kernel.PanelRows
			first, last := t*panels / *threads, (t+1)*panels / *threads
			for c := 0; c < rows; c += chunk {
				for j := first; j < last; j++ {
					f.mul(y[c*n+j*kernel.PanelRows:], n, w[j*panel:], q, c, min(chunk, rows-c))
				}
			}
		})
	})
	p.sink += y[0]
	r := result{Name: name, Threads: *threads, Bytes: float64(size), Reps: reps, Best: best, Median: median}
	r.Flops = 2 * float64(n) * float64(k) * float64(rows)
	r.GFlops, r.GBytes = r.Flops/r.Median/1e9, r.Bytes/r.Median/1e9
	return r
}
