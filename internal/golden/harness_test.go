package golden_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
	"github.com/cofferdam-ml/cofferdam/internal/oracle"
)

type implementation struct {
	name string
	open func() backend.Backend
}

// backends are the implementations that must give the reference's answers.
var backends = []implementation{
	{"oracle", func() backend.Backend { return oracle.New() }},
	{"cpu", func() backend.Backend { return cpu.Open(0) }},
}

// tested leaves the oracle, which has one goroutine, out of short runs.
func tested() []implementation {
	if testing.Short() {
		return backends[1:]
	}
	return backends
}

const pageSize = 4

// engine is a golden's model in a backend, with pages of its own.
type engine struct {
	b     backend.Backend
	m     *decoder.Model
	pages backend.Pages
	vocab int
	rows  int

	free  []int32
	epoch uint64
}

// sequence is a token sequence with its pages, in no particular order.
type sequence struct {
	tag   uint64
	pages []int32
	n     int // positions written
}

func open(t *testing.T, g *golden.Golden, b backend.Backend, rows, pages int, format backend.KVFormat) *engine {
	t.Helper()
	ck, err := checkpoint.Open(g.Dir)
	if err != nil {
		t.Fatal(err)
	}
	ck.Config.LatentEps = g.LatentEps
	m, err := decoder.Load(b, ck, decoder.Options{Rows: rows, Outs: rows, Trace: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.NewPages(backend.PageSpec{Pages: pages, PageSize: pageSize, Format: format, Planes: m.Planes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{p.Close(), b.Close(), ck.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	e := &engine{b: b, m: m, pages: p, vocab: g.VocabSize, rows: rows}
	for _, i := range rand.New(rand.NewPCG(1, uint64(pages))).Perm(pages) {
		e.free = append(e.free, int32(i))
	}
	return e
}

// grow gives s pages for n more positions.
func (e *engine) grow(t *testing.T, s *sequence, n int) {
	t.Helper()
	for len(s.pages)*pageSize < s.n+n {
		if len(e.free) == 0 {
			t.Fatal("out of pages")
		}
		p := e.free[0]
		e.free = e.free[1:]
		e.pages.SetTag(int(p), s.tag)
		s.pages = append(s.pages, p)
	}
}

// chunk is one sequence's part of a step.
type chunk struct {
	s   *sequence
	ids []int32
	pad int // padding rows behind it
}

// step runs chunks and returns the logits of every real row, in order, with the
// greedy id of each.
func (e *engine) step(t *testing.T, chunks ...chunk) (logits [][]float32, greedy []int32) {
	t.Helper()
	e.epoch++
	s := &backend.Step{Epoch: e.epoch, QStart: []int32{0}}
	for _, c := range chunks {
		e.grow(t, c.s, len(c.ids))
		s.Stride = max(s.Stride, len(c.s.pages))
	}
	for q, c := range chunks {
		for i, id := range c.ids {
			s.Out = append(s.Out, int32(len(s.IDs)))
			s.IDs = append(s.IDs, id)
			s.Seq = append(s.Seq, int32(q))
			s.Pos = append(s.Pos, int32(c.s.n+i))
			s.Sampling = append(s.Sampling, backend.Sampling{})
		}
		for range c.pad {
			s.IDs, s.Seq, s.Pos = append(s.IDs, -7), append(s.Seq, -1), append(s.Pos, -7)
		}
		c.s.n += len(c.ids)
		s.QStart = append(s.QStart, int32(len(s.IDs)))
		s.KVLen = append(s.KVLen, int32(c.s.n))
		s.Session, s.Tag = append(s.Session, uint64(q)), append(s.Tag, c.s.tag)
		table := make([]int32, s.Stride)
		for i := range table {
			table[i] = -1
			s.PageTag = append(s.PageTag, c.s.tag)
		}
		copy(table, c.s.pages)
		s.Pages = append(s.Pages, table...)
	}
	if len(s.IDs) > e.rows {
		t.Fatalf("%d rows in a step of at most %d", len(s.IDs), e.rows)
	}
	if err := e.b.Start(e.m.Program, s, e.pages); err != nil {
		t.Fatal(err)
	}
	r, err := e.b.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for row, h := range r.Health {
		if h != 0 {
			t.Fatalf("row %d is %v", row, h)
		}
	}
	all := e.b.Read(e.m.Logits, len(s.Out))
	for i := range s.Out {
		logits = append(logits, all[i*e.vocab:(i+1)*e.vocab])
	}
	return logits, append([]int32(nil), r.ID...)
}

// rowsNeeded returns the longest fed sequence of a golden.
func rowsNeeded(g *golden.Golden) int {
	n := 0
	for i := range g.Prompts {
		n = max(n, len(g.Prompts[i].Fed()))
	}
	return n
}

// each loads every golden and runs f as a subtest; in short mode, three that
// together have every operation.
func each(t *testing.T, f func(t *testing.T, g *golden.Golden)) {
	t.Helper()
	names, err := golden.Names()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("no goldens")
	}
	if testing.Short() {
		names = []string{"glm52fp8", "hard", "glm45"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			g, err := golden.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			f(t, g)
		})
	}
}
