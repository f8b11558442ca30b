package glm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/kvcache"
)

// scheduler runs the generations of one pool: a loop of steps, each one batch.
// Rows that decode come first; what is left of a step goes to prompts in
// chunks, tenant after tenant, first come first served within a tenant.
type scheduler struct {
	pool *KVPool
	wake chan struct{} // holds one signal
	done chan struct{}

	mu       sync.Mutex
	running  []*generation // in order of arrival
	inflight map[*generation]struct{}
	abort    *atomic.Bool // of the step that runs
	quit     bool

	// The loop's own. Turns are counted, and the next one is of whoever had one
	// longest ago, so that nobody is passed twice by the same.
	turns  int
	served map[any]int // tenants with waiting prompts: their last turn, at first when they came
}

// prefillRows is how many rows of a step go to prompts while others decode:
// the price that a long prompt may put on everybody's next token.
const prefillRows = 64

func newScheduler(p *KVPool) *scheduler {
	s := &scheduler{
		pool: p, wake: make(chan struct{}, 1), done: make(chan struct{}),
		inflight: map[*generation]struct{}{}, served: map[any]int{},
	}
	go s.loop()
	return s
}

// add takes in an admitted generation.
func (s *scheduler) add(g *generation) {
	s.mu.Lock()
	s.running = append(s.running, g)
	s.mu.Unlock()
	s.signal()
}

func (s *scheduler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// left notes that a generation has ended. When nobody is left in the running
// step, the step has no purpose, and workers leave it at the next tile.
func (s *scheduler) left(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.inflight[g]; ok {
		delete(s.inflight, g)
		if len(s.inflight) == 0 && s.abort != nil {
			s.abort.Store(true)
		}
	}
	s.signal()
}

// stop ends the loop; every generation must have ended.
func (s *scheduler) stop() {
	s.mu.Lock()
	s.quit = true
	s.mu.Unlock()
	s.signal()
	<-s.done
}

func (s *scheduler) loop() {
	defer close(s.done)
	for {
		s.mu.Lock()
		quit := s.quit
		running := slices.Clone(s.running)
		s.mu.Unlock()
		if quit {
			return
		}
		running = slices.DeleteFunc(running, func(g *generation) bool {
			over := g.over()
			if over {
				s.drop(g)
			}
			return over
		})
		if len(running) == 0 {
			<-s.wake
			continue
		}
		s.step(s.plan(running))
	}
}

func (s *scheduler) drop(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = slices.DeleteFunc(s.running, func(o *generation) bool { return o == g })
}

// turn is what a step feeds of one generation.
type turn struct {
	g      *generation
	tokens []int32
	at     int
	out    bool // the tokens end where an id is wanted
}

// plan chooses the turns of the next step.
func (s *scheduler) plan(running []*generation) []turn {
	var decode, prefill []turn
	for _, g := range running {
		at := g.lease.Valid()
		t := turn{g: g, at: at, tokens: g.ids[at:]}
		if len(t.tokens) == 1 {
			t.out = true
			decode = append(decode, t)
			if g.served == 0 {
				g.served = s.turns
			}
		} else {
			prefill = append(prefill, t)
		}
	}
	if len(decode) > stepOuts {
		slices.SortStableFunc(decode, func(a, b turn) int { return cmp.Compare(a.g.served, b.g.served) })
		decode = decode[:stepOuts]
	}
	s.turns++
	for _, t := range decode {
		t.g.served = s.turns
	}
	turns, rows := decode, stepRows
	if len(decode) > 0 {
		rows = prefillRows
	}
	for _, t := range s.inTurn(prefill) {
		if rows == 0 {
			break
		}
		n := min(len(t.tokens), rows)
		t.out = n == len(t.tokens)
		if t.out && len(turns) >= stepOuts {
			// No place to sample: leave its last token for the next step.
			n, t.out = n-1, false
		}
		if t.tokens = t.tokens[:n]; n > 0 {
			turns = append(turns, t)
			rows -= n
			s.turns++
			s.served[t.g.tenant()] = s.turns
		}
	}
	return turns
}

// inTurn orders prompts: one of each tenant, beginning with the one served
// longest ago, then the next of each.
func (s *scheduler) inTurn(prefill []turn) []turn {
	var tenants []any
	of := map[any][]turn{}
	for _, t := range prefill {
		k := t.g.tenant()
		if of[k] == nil {
			tenants = append(tenants, k)
			if _, known := s.served[k]; !known {
				s.turns++
				s.served[k] = s.turns
			}
		}
		of[k] = append(of[k], t)
	}
	// Who comes again later comes last: there is nothing to remember.
	maps.DeleteFunc(s.served, func(k any, _ int) bool { return of[k] == nil })
	slices.SortFunc(tenants, func(a, b any) int { return cmp.Compare(s.served[a], s.served[b]) })
	ordered := make([]turn, 0, len(prefill))
	for len(ordered) < len(prefill) {
		for _, k := range tenants {
			if len(of[k]) > 0 {
				ordered = append(ordered, of[k][0])
				of[k] = of[k][1:]
			}
		}
	}
	return ordered
}

// tenant is who takes turns; sessions without a tenant stand for themselves.
func (g *generation) tenant() any {
	if g.session.tag != "" {
		return g.session.tag
	}
	return g.session
}

// step runs one batch and hands out what it gives.
func (s *scheduler) step(turns []turn) {
	entries := make([]kvcache.Entry, len(turns))
	byLease := make(map[*kvcache.Lease]turn, len(turns))
	for i, t := range turns {
		entries[i] = kvcache.Entry{Lease: t.g.lease, At: t.at, Tokens: t.tokens}
		byLease[t.g.lease] = t
	}
	st, err := s.pool.cache.Begin(entries)
	if err != nil {
		for _, t := range turns {
			t.g.finish(kvcache.CauseFailed, err)
		}
		return
	}
	for _, r := range st.Refused() {
		s.refused(byLease[r.Lease].g, r.Err)
	}
	in := make([]turn, 0, len(turns))
	for _, l := range st.Leases() {
		in = append(in, byLease[l])
	}
	if len(in) == 0 {
		st.Abort()
		return
	}
	result, err := s.compute(st, in)
	switch {
	case err != nil:
		st.Abort()
		for _, t := range in {
			t.g.finish(kvcache.CauseFailed, err)
		}
	case result.Aborted:
		st.Abort()
	default:
		deliver(st, in, result)
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

// compute uploads a step and waits for it.
func (s *scheduler) compute(st *kvcache.Step, in []turn) (*backend.Result, error) {
	a := st.Arrays()
	if err := st.Check(a); err != nil {
		return nil, err
	}
	up := &backend.Step{
		Epoch: st.Epoch(), IDs: a.IDs, Seq: a.Seq, Pos: a.Pos, QStart: a.QStart, KVLen: a.KVLen,
		Session: a.Session, Tag: a.Tag, Pages: a.Pages, PageTag: a.PageTag, Stride: a.Stride,
		Abort: new(atomic.Bool),
	}
	for q, t := range in {
		if t.out {
			up.Out = append(up.Out, a.QStart[q+1]-1)
			up.Sampling = append(up.Sampling, t.g.sampling)
		}
	}
	s.enter(in, up.Abort)
	defer s.leave()
	for _, t := range in { // those who left before they were in
		if t.g.over() {
			s.left(t.g)
		}
	}

	m := s.pool.model
	m.step.Lock()
	defer m.step.Unlock()
	if err := m.device.Start(m.graph.Program, up, s.pool.pages); err != nil {
		return nil, &DeviceError{Op: "start step", Name: "refused", Err: err}
	}
	r, err := m.device.Wait()
	if err != nil {
		return nil, &DeviceError{Op: "step", Name: "failed", Err: err}
	}
	// The device's slices are good until its next step, which another pool may
	// start as soon as the lock is gone.
	result := &backend.Result{
		Epoch: r.Epoch, Session: slices.Clone(r.Session), Tag: slices.Clone(r.Tag), Aborted: r.Aborted,
		Health: slices.Clone(r.Health), ID: slices.Clone(r.ID), LogProb: slices.Clone(r.LogProb), Top: slices.Clone(r.Top),
	}
	for i, top := range result.Top {
		result.Top[i] = slices.Clone(top)
	}
	return result, nil
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
func deliver(st *kvcache.Step, in []turn, r *backend.Result) {
	results := make([]kvcache.Result, len(in))
	health := make([]backend.Health, len(in))
	a := st.Arrays()
	for q := range in {
		for row := a.QStart[q]; row < a.QStart[q+1]; row++ {
			health[q] |= r.Health[row]
		}
		results[q] = kvcache.Result{Session: r.Session[q], Tag: r.Tag[q], Epoch: r.Epoch}
		if health[q] == 0 {
			results[q].Rows = len(in[q].tokens)
		}
	}
	out := 0
	for q, err := range st.Complete(results) {
		t := in[q]
		i := out
		if t.out {
			out++
		}
		switch {
		case health[q] != 0:
			t.g.finish(kvcache.CauseFailed, sick(health[q], t.at))
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
