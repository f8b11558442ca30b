package cpu_test

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// A step allocates nothing once a step of its size has run: neither decoding nor
// prefilling, in any family and format.
func TestStepAllocatesNothing(t *testing.T) {
	for _, f := range []cpu.Format{cpu.AsStored, cpu.Int8, cpu.Int4} {
		t.Run(f.String(), func(t *testing.T) { allocatesNothing(t, f) })
	}
}

func allocatesNothing(t *testing.T, f cpu.Format) {
	names, err := golden.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			g, err := golden.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			ck, err := checkpoint.Open(g.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			ck.Config.LatentEps = g.LatentEps
			b := cpu.Open(2).Packer(func(name string) cpu.Format { return cpu.FormatOf(name, f) })
			defer b.Close()
			const rows, pageSize = 24, 8
			m, err := decoder.Load(b, ck, decoder.Options{Rows: rows, Outs: 2})
			if err != nil {
				t.Fatal(err)
			}
			pages, err := b.NewPages(backend.PageSpec{Pages: 8, PageSize: pageSize, Format: backend.KVF32, Planes: m.Planes})
			if err != nil {
				t.Fatal(err)
			}
			defer pages.Close()
			// Two sequences of 24 positions, four pages each.
			step := func(first, n int32) *backend.Step {
				s := &backend.Step{QStart: []int32{0}, Stride: 4}
				for q := range int32(2) {
					for i := range n {
						s.IDs, s.Seq, s.Pos = append(s.IDs, (q+i)%7), append(s.Seq, q), append(s.Pos, first+i)
					}
					s.QStart, s.KVLen = append(s.QStart, int32(len(s.IDs))), append(s.KVLen, first+n)
					s.Session, s.Tag = append(s.Session, uint64(q)), append(s.Tag, 0)
					for p := range int32(4) {
						s.Pages, s.PageTag = append(s.Pages, 4*q+p), append(s.PageTag, 0)
					}
					s.Out, s.Sampling = append(s.Out, int32(len(s.IDs)-1)), append(s.Sampling, backend.Sampling{Temperature: float32(q), TopP: 0.9, U: 0.5})
				}
				return s
			}
			for _, c := range []struct {
				name     string
				first, n int32
			}{{"prefill", 0, 12}, {"decode", 12, 1}} {
				s := step(c.first, c.n)
				run := func() {
					if err := b.Start(m.Program, s, pages); err != nil {
						t.Fatal(err)
					}
					r, err := b.Wait()
					if err != nil {
						t.Fatal(err)
					}
					for row, h := range r.Health {
						if h != 0 {
							t.Fatalf("row %d is %v", row, h)
						}
					}
				}
				for range 20 { // until each worker has met each kind of task
					run()
				}
				if n := testing.AllocsPerRun(50, run); n != 0 {
					t.Errorf("%s: %g allocations a step", c.name, n)
				}
			}
		})
	}
}
