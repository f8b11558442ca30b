package glm

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/kvcache"
)

// batch is the memory of a step: what goes up, what comes back, and whose it is.
// Every step of a scheduler uses the same.
type batch struct {
	entries []kvcache.Entry
	memory  kvcache.StepMemory
	byLease map[*kvcache.Lease]turn
	in      []turn // who is in the step, by sequence
	up      backend.Step
	abort   atomic.Bool
	got     backend.Result
	tops    []backend.TokenProb // of all rows of got
	results []kvcache.Result
	health  []backend.Health // by sequence
}

// step runs one batch and hands out what it gives.
func (s *scheduler) step(turns []turn) {
	b := &s.batch
	if b.byLease == nil {
		b.byLease = map[*kvcache.Lease]turn{}
	}
	clear(b.byLease)
	b.entries = b.entries[:0]
	for _, t := range turns {
		b.entries = append(b.entries, kvcache.Entry{Lease: t.g.lease, At: t.at, Tokens: t.tokens})
		b.byLease[t.g.lease] = t
	}
	st, err := s.pool.cache.BeginIn(&b.memory, b.entries)
	clear(b.entries) // nothing holds on to tokens for longer than it needs them
	if err != nil {
		for _, t := range turns {
			t.g.finish(kvcache.CauseFailed, err)
		}
		return
	}
	for _, r := range st.Refused() {
		s.refused(b.byLease[r.Lease].g, r.Err)
	}
	b.in = b.in[:0]
	for _, l := range st.Leases() {
		b.in = append(b.in, b.byLease[l])
	}
	if len(b.in) == 0 {
		st.Abort()
		return
	}
	switch err := s.compute(st, b); {
	case err != nil:
		st.Abort()
		for _, t := range b.in {
			t.g.finish(kvcache.CauseFailed, err)
		}
	case b.got.Aborted:
		st.Abort()
	default:
		b.deliver(st)
	}
}

// refused handles an entry that is not in the step.
func (s *scheduler) refused(g *generation, err error) {
	if err != kvcache.ErrRequeued {
		g.finish(kvcache.CauseFailed, err)
		return
	}
	s.drop(g)
	go func() { // waits for room; ends with the lease
		if err := g.lease.Readmit(context.Background(), g.ids); err != nil {
			g.finish(kvcache.CauseFailed, err)
			return
		}
		s.add(g)
	}()
}

// compute uploads a step, waits for it and copies what it gave.
func (s *scheduler) compute(st kvcache.Step, b *batch) error {
	a := st.Arrays()
	if err := st.Check(a); err != nil {
		return err
	}
	b.abort.Store(false)
	b.up = backend.Step{
		Epoch: st.Epoch(), IDs: a.IDs, Seq: a.Seq, Pos: a.Pos, QStart: a.QStart, KVLen: a.KVLen,
		Session: a.Session, Tag: a.Tag, Pages: a.Pages, PageTag: a.PageTag, Stride: a.Stride,
		Out: b.up.Out[:0], Sampling: b.up.Sampling[:0], Abort: &b.abort,
	}
	for q, t := range b.in {
		if t.out {
			b.up.Out = append(b.up.Out, a.QStart[q+1]-1)
			b.up.Sampling = append(b.up.Sampling, t.g.sampling)
		}
	}
	s.enter(b.in, &b.abort)
	defer s.leave()
	for _, t := range b.in { // those who left before they were in
		if t.g.over() {
			s.left(t.g)
		}
	}

	m := s.pool.model
	m.step.Lock()
	defer m.step.Unlock()
	if err := m.device.Start(m.graph.Program, &b.up, s.pool.pages); err != nil {
		return &DeviceError{Op: "start step", Name: "refused", Err: err}
	}
	r, err := m.device.Wait()
	if err != nil {
		return &DeviceError{Op: "step", Name: "failed", Err: err}
	}
	b.keep(r)
	return nil
}

// keep copies a result: the device's slices are good until its next step, which
// another pool may start as soon as the lock is gone.
func (b *batch) keep(r *backend.Result) {
	g := &b.got
	g.Epoch, g.Aborted = r.Epoch, r.Aborted
	g.Session, g.Tag = append(g.Session[:0], r.Session...), append(g.Tag[:0], r.Tag...)
	g.Health, g.ID = append(g.Health[:0], r.Health...), append(g.ID[:0], r.ID...)
	g.LogProb, g.Top = append(g.LogProb[:0], r.LogProb...), g.Top[:0]
	b.tops = b.tops[:0]
	for _, top := range r.Top {
		at := len(b.tops)
		b.tops = append(b.tops, top...)
		g.Top = append(g.Top, b.tops[at:])
	}
}

// enter notes who is in the step that is about to run.
func (s *scheduler) enter(in []turn, abort *atomic.Bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort = abort
	for _, t := range in {
		s.inflight[t.g] = struct{}{}
	}
}

func (s *scheduler) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort = nil
	clear(s.inflight)
}

// deliver completes a step: marks rise, and ids go to those whose echo and
// health are right.
func (b *batch) deliver(st kvcache.Step) {
	r, a := &b.got, st.Arrays()
	b.results, b.health = b.results[:0], b.health[:0]
	for q, t := range b.in {
		var health backend.Health
		for row := a.QStart[q]; row < a.QStart[q+1]; row++ {
			health |= r.Health[row]
		}
		result := kvcache.Result{Session: r.Session[q], Tag: r.Tag[q], Epoch: r.Epoch}
		if health == 0 {
			result.Rows = len(t.tokens)
		}
		b.results, b.health = append(b.results, result), append(b.health, health)
	}
	out := 0
	for q, err := range st.Complete(b.results) {
		t := b.in[q]
		i := out
		if t.out {
			out++
		}
		switch {
		case b.health[q] != 0:
			t.g.finish(kvcache.CauseFailed, sick(b.health[q], t.at))
		case err != nil:
			t.g.finish(kvcache.CauseFailed, err)
		case t.out:
			t.g.accept(r.ID[i], r.LogProb[i], r.Top[i])
		}
	}
}

// sick is the error of a row's health word.
func sick(h backend.Health, at int) error {
	if h&backend.TagMismatch != 0 {
		return &IntegrityError{Kind: ErrBinding, Position: at, Want: "pages tagged for the sequence", Have: h.String()}
	}
	return &DeviceError{Op: "step", Code: int(h), Name: h.String(), Err: fmt.Errorf("rows from position %d on", at)}
}
