package glm

import (
	"bytes"
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// Freed pages are poisoned in tests: who reads a row that nobody wrote gets a
// NaN, which fails the row, where zeros would pass for small numbers.
func init() {
	scrub = func(p backend.Pages, pages ...int) {
		p.Scrub(pages...)
		nan := bytes.Repeat([]byte{0xff}, p.Spec().PageBytes()) // in every format
		for _, i := range pages {
			if err := p.Import(i, nan); err != nil {
				panic(err)
			}
		}
	}
}

// Watch stands between a model and its device. It sees every step, and holds
// the device to its contract: what a step left behind is gone at the next.
type Watch struct {
	backend.Backend
	Begin  func(*backend.Step, backend.Pages) // before a step starts
	During func(*backend.Step)                // once it runs
	End    func(*backend.Step, *backend.Result)
	step   *backend.Step
	last   *backend.Result
}

// Watch puts w in place; before the first pool.
func (m *Model) Watch(w *Watch) {
	w.Backend, m.device = m.device, w
}

func (w *Watch) Start(p backend.Program, s *backend.Step, pages backend.Pages) error {
	if r := w.last; r != nil {
		for i := range r.ID {
			r.ID[i], r.LogProb[i] = -7, -7
			for j := range r.Top[i] {
				r.Top[i][j] = backend.TokenProb{ID: -7}
			}
		}
		for i := range r.Tag {
			r.Tag[i], r.Session[i] = 0, 0
		}
		for i := range r.Health {
			r.Health[i] = 0xff
		}
	}
	if w.Begin != nil {
		w.Begin(s, pages)
	}
	w.step = s
	return w.Backend.Start(p, s, pages)
}

func (w *Watch) Wait() (*backend.Result, error) {
	if w.During != nil {
		w.During(w.step)
	}
	r, err := w.Backend.Wait()
	if w.last = r; r != nil && w.End != nil {
		w.End(w.step, r)
	}
	return r, err
}

// Check counts the pool's pages against its invariants.
func (p *KVPool) Check() error { return p.cache.Check() }

// Scheduled counts the generations that take turns in steps.
func (p *KVPool) Scheduled() int {
	p.sched.mu.Lock()
	defer p.sched.mu.Unlock()
	return len(p.sched.running)
}

// Pages is the memory of the pool, as its steps name it.
func (p *KVPool) Pages() backend.Pages { return p.pages }

// Draws counts what the session's random numbers are asked for from now on.
func (s *Session) Draws() *int {
	c := &counted{Source: rand.NewPCG(1, 2)}
	s.random = rand.New(c)
	return &c.n
}

type counted struct {
	rand.Source
	n int
}

func (c *counted) Uint64() uint64 {
	c.n++
	return c.Source.Uint64()
}

// Late returns what delivers a token to the present generation, whenever it is
// called.
func (s *Session) Late() func(id int32) {
	g := s.active
	return func(id int32) { g.accept(id, 0, nil) }
}
