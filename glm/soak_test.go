package glm_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

const (
	soakGolden   = "air"
	soakTenants  = 16
	soakSessions = 64
	soakRequests = 5       // different ones of each tenant
	soakPool     = 48 * 32 // tokens: a third of what all sessions want at once
)

// soak is many sessions that do everything at once, and what is known of them.
type soak struct {
	t      *testing.T
	m      *glm.Model
	target int64 // generations to finish
	asks   [soakTenants][soakRequests]ask
	wants  [soakTenants][soakRequests]heard

	mu   sync.RWMutex
	pool *glm.KVPool

	finished, cancelled, left, closed, refused, busy, wild, forgot, restarts atomic.Int64

	// Who wrote each page last, by pool.
	pages map[backend.Pages]*ledger
	book  sync.RWMutex
	cross atomic.Int64 // pages that one tenant wrote and another writes later
	reuse atomic.Int64 // pages that are read and were written by somebody earlier
}

// ledger knows of one pool whose sessions and pages are whose.
type ledger struct {
	mu     sync.Mutex
	tenant map[uint64]string // by session
	writer map[int32]string  // by page: the tenant, or the session without one
	events map[string]int
}

// audit learns the tenant of a session before the session's first step.
func (l *ledger) audit(event string, attrs map[string]slog.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events[event]++
	if event == "admitted" {
		session, tenant := attrs["session"].Uint64(), attrs["tenant"].String()
		if tenant == "" {
			tenant = fmt.Sprint("session ", session)
		}
		l.tenant[session] = tenant
	}
}

// step notes who writes which page, and demands that everybody reads pages that
// his own tenant wrote.
func (s *soak) step(st *backend.Step, pages backend.Pages) {
	s.book.RLock()
	l := s.pages[pages]
	s.book.RUnlock()
	if l == nil {
		return // a reference run
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size := pages.Spec().PageSize
	for q, session := range st.Session {
		tenant := l.tenant[session]
		if tenant == "" {
			s.t.Errorf("session %d runs and was not admitted", session)
		}
		for i := range (int(st.KVLen[q]) + size - 1) / size {
			at := q*st.Stride + i
			page, writer := st.Pages[at], l.writer[st.Pages[at]]
			if st.PageTag[at] == st.Tag[q] {
				if writer != "" && writer != tenant {
					s.cross.Add(1)
				}
				l.writer[page] = tenant
				continue
			}
			s.reuse.Add(1)
			if writer != tenant {
				s.t.Errorf("page %d, which %q wrote, is read by %q", page, writer, tenant)
			}
		}
	}
}

// open makes a pool of the next kind and puts it in the place of the last one.
func (s *soak) open() (old *glm.KVPool) {
	l := &ledger{tenant: map[uint64]string{}, writer: map[int32]string{}, events: map[string]int{}}
	c := glm.PoolConfig{Tokens: soakPool, Audit: auditor(l.audit), QueueWait: 5 * time.Minute, Queue: 2 * soakSessions}
	if s.restarts.Add(1)%2 == 0 {
		c.Admission = glm.Clamp
	}
	p := newPool(s.t, s.m, c)
	s.book.Lock()
	s.pages[p.Pages()] = l
	s.book.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.pool = s.pool, p
	return old
}

func (s *soak) now() *glm.KVPool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pool
}

// prepare draws the requests and runs each alone. The prompts of a tenant begin
// alike and use ids that no other tenant uses.
func (s *soak) prepare(vocab int, rng *rand.Rand) {
	words := int32((vocab - 4) / soakTenants)
	for tenant := range soakTenants {
		ids := func(n int) (p []int32) {
			for range n {
				p = append(p, int32(tenant)*words+rng.Int32N(words))
			}
			return p
		}
		system := ids(32)
		for i := range soakRequests {
			a := &s.asks[tenant][i]
			a.name, a.tenant = fmt.Sprintf("request %d of tenant %d", i, tenant), fmt.Sprint("tenant ", tenant)
			a.r = glm.Request{Tokens: slices.Concat(system, ids(1+rng.IntN(24))), MaxTokens: 2 + rng.IntN(4), Sampling: &glm.Sampling{TopLogProbs: 5}}
			switch i {
			case 0: // all its own
				a.r.Tokens = ids(1 + rng.IntN(60))
			case 1:
				a.r.Sampling = &glm.Sampling{Temperature: 1.2, TopP: 0.9, Seed: rng.Uint64() | 1, TopLogProbs: 5}
			case 2:
				a.r.Sampling = &glm.Sampling{Temperature: 0.7, TopK: 30, Repetition: 1.3, Frequency: 0.2, Seed: rng.Uint64() | 1, TopLogProbs: 5}
			case 3: // another one's text continued
				a.r.Tokens = slices.Concat(s.asks[tenant][1].r.Tokens, ids(20))
			case soakRequests - 1: // pages of output, which a Clamp pool must grow for
				a.r.MaxTokens = 64
			}
		}
		copy(s.wants[tenant][:], alone(s.t, s.m, glm.KVF32, s.asks[tenant][:]))
	}
}

// judge compares what was heard with the reference run.
func (s *soak) judge(how string, tenant, i int, h heard) {
	want, name := &s.wants[tenant][i], s.asks[tenant][i].name
	reason := h.finish.Reason
	switch {
	case h.flaw != nil:
		s.t.Errorf("%s, %s: %v", name, how, h.flaw)
	case len(h.tokens) > len(want.tokens), !slices.Equal(h.tokens, want.tokens[:len(h.tokens)]),
		h.ended() && (reason != want.finish.Reason || len(h.tokens) != len(want.tokens)):
		s.t.Errorf("%s, %s: %s", name, how, differ(&h, want))
	}
	switch {
	case h.ended():
		s.finished.Add(1)
	case h.left:
		s.left.Add(1)
	case reason == glm.FinishContext:
	case errors.Is(h.err, glm.ErrCanceled) && errors.Is(h.err, context.Canceled):
		s.cancelled.Add(1)
	case errors.Is(h.err, glm.ErrPoolClosed), errors.Is(h.err, glm.ErrSessionClosed):
		s.closed.Add(1)
	case errors.Is(h.err, glm.ErrPoolExhausted) && reason == "":
		s.refused.Add(1)
	default:
		s.t.Errorf("%s, %s: %s, %v", name, how, reason, h.err)
	}
}

// live is the life of one client: sessions one after the other, and in each a
// number of requests that end in all sorts of ways.
func (s *soak) live(client int, rng *rand.Rand) {
	tenant := client % soakTenants
	name := fmt.Sprint("tenant ", tenant)
	for s.finished.Load() < s.target && !s.t.Failed() {
		p := s.now()
		session, err := p.NewSession(glm.SessionConfig{Tenant: name})
		if err != nil {
			if !errors.Is(err, glm.ErrPoolClosed) {
				s.t.Errorf("new session: %v", err)
			}
			runtime.Gosched() // the next pool is on its way
			continue
		}
		for range 1 + rng.IntN(8) {
			if s.finished.Load() >= s.target || s.now() != p || !s.act(p, session, tenant, rng) {
				break
			}
		}
		if err := session.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// act makes one request. It reports whether the session is still of use.
func (s *soak) act(p *glm.KVPool, session *glm.Session, tenant int, rng *rand.Rand) bool {
	i := rng.IntN(soakRequests - 1)
	if rng.IntN(12) == 0 {
		i = soakRequests - 1
	}
	r := s.asks[tenant][i].r
	n := len(r.Tokens)
	k := rng.IntN(r.MaxTokens + 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch dice := rng.IntN(100); {
	case dice < 12: // the context ends at a token, or at any time
		if k == 0 {
			time.AfterFunc(time.Duration(rng.IntN(20_000))*time.Microsecond, cancel)
		}
		s.judge("cancelled", tenant, i, listen(session.Generate(ctx, r), n, func(tokens int) bool {
			if k > 0 && tokens == k {
				cancel()
			}
			return true
		}))
	case dice < 24:
		h := listen(session.Generate(ctx, r), n, func(tokens int) bool { return tokens < k })
		s.judge("left", tenant, i, h)
		if u := session.Usage(); h.left && (u.Prompt != n || u.Output < len(h.tokens)) {
			s.t.Errorf("usage %+v after a prompt of %d and %d tokens", u, n, len(h.tokens))
		}
	case dice < 36:
		s.judge("without a session", tenant, i, listen(p.Generate(ctx, s.asks[tenant][i].tenant, r), n, nil))
	case dice < 42:
		s.judge("without a tenant", tenant, i, listen(p.Generate(ctx, "", r), n, nil))
	case dice < 46: // closed by somebody else, at any time
		timer := time.AfterFunc(time.Duration(rng.IntN(20_000))*time.Microsecond, func() { session.Close() })
		s.judge("closed", tenant, i, listen(session.Generate(ctx, r), n, nil))
		return timer.Stop()
	case dice < 50:
		s.judge("with a second range", tenant, i, listen(session.Generate(ctx, r), n, func(tokens int) bool {
			h := listen(session.Generate(ctx, r), n, nil)
			if !errors.Is(h.err, glm.ErrSessionBusy) && !errors.Is(h.err, glm.ErrSessionClosed) && !errors.Is(h.err, glm.ErrPoolClosed) || h.flaw != nil || h.finish.Reason != "" {
				s.t.Errorf("a second range: %v, %v", h.err, h.flaw)
			}
			s.busy.Add(1)
			return true
		}))
	case dice < 53:
		wait, stop := context.WithTimeout(ctx, time.Duration(rng.IntN(50))*time.Millisecond)
		defer stop()
		if err := p.Forget(wait, s.asks[tenant][i].tenant); err != nil && wait.Err() == nil {
			s.t.Errorf("forget: %v", err)
		}
		s.forgot.Add(1)
	case dice < 60: // drawn with the session's own numbers, and left
		r.Sampling = &glm.Sampling{Temperature: 1}
		h := listen(session.Generate(ctx, r), n, func(tokens int) bool { return tokens < k })
		if h.flaw != nil {
			s.t.Error(h.flaw)
		}
		s.wild.Add(1)
	default:
		s.judge("in a session", tenant, i, listen(session.Generate(ctx, r), n, nil))
	}
	return true
}

// Sessions of many tenants do everything at once, and pools come and go: every
// stream keeps its contract, everybody hears what he would hear alone, nobody
// reads a page that another tenant wrote, and nothing is left behind.
func TestSoak(t *testing.T) {
	goroutines, memory := runtime.NumGoroutine(), offheap.InUse()
	s := &soak{t: t, target: 2000, pages: map[backend.Pages]*ledger{}}
	crossings, restarts := int64(500), int64(8)
	if testing.Short() {
		s.target, crossings, restarts = 100, 20, 2
	}
	t.Run("run", func(t *testing.T) { // its model is closed when it is over
		s.t = t
		m, g := openGolden(t, soakGolden, 0, &glm.Watch{Begin: s.step})
		s.m = m
		s.prepare(g.VocabSize, rand.New(rand.NewPCG(1, 1)))
		s.run(restarts)
		s.rest()
	})
	eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := offheap.InUse(); n != memory {
		t.Errorf("%d bytes outside the heap, before it were %d", n, memory)
	}
	if s.finished.Load() < s.target || s.cross.Load() < crossings {
		t.Errorf("%d generations finished, want %d; %d pages changed tenants, want %d", s.finished.Load(), s.target, s.cross.Load(), crossings)
	}
	events := map[string]int{}
	for _, l := range s.pages {
		for e, n := range l.events {
			events[e] += n
		}
	}
	if events["requeued"] == 0 && !testing.Short() {
		t.Error("nothing was requeued")
	}
	t.Logf("finished %d, cancelled %d, left %d, closed %d, refused %d; drawn freely %d, second ranges %d, forgotten %d, pools %d",
		s.finished.Load(), s.cancelled.Load(), s.left.Load(), s.closed.Load(), s.refused.Load(), s.wild.Load(), s.busy.Load(), s.forgot.Load(), s.restarts.Load())
	t.Logf("pages that changed tenants %d, pages read that were there %d; audit %v", s.cross.Load(), s.reuse.Load(), events)
}

// run lets everybody live until enough generations have finished, and replaces
// the pool a number of times under them.
func (s *soak) run(restarts int64) {
	s.open()
	var clients, others sync.WaitGroup
	for client := range soakSessions {
		clients.Go(func() { s.live(client, rand.New(rand.NewPCG(2, uint64(client)))) })
	}
	done := make(chan struct{})
	others.Go(func() {
		for next := int64(1); ; {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if err := s.now().Check(); err != nil {
				s.t.Error(err)
			}
			if s.finished.Load() < next*s.target/(restarts+1) {
				continue
			}
			next++
			old := s.open()
			if err := errors.Join(old.Close(), old.Check()); err != nil {
				s.t.Error(err)
			}
			if st := old.Stats(); st.Free != st.Pages || st.Integrity != 0 {
				s.t.Errorf("a closed pool: %+v", st)
			}
		}
	})
	clients.Wait()
	close(done)
	others.Wait()
}

// rest demands that the last pool comes to rest, and then empties.
func (s *soak) rest() {
	p := s.now()
	eventually(s.t, "a pool at rest", func() bool { st := p.Stats(); return st.Free+st.Resting == st.Pages })
	if st := p.Stats(); st.Running != 0 || st.Waiting != 0 || st.Reserved != 0 || st.Integrity != 0 || p.Scheduled() != 0 {
		s.t.Errorf("at rest: %+v, %d scheduled", st, p.Scheduled())
	}
	for tenant := range soakTenants {
		if err := p.Forget(context.Background(), fmt.Sprint("tenant ", tenant)); err != nil {
			s.t.Error(err)
		}
	}
	if st := p.Stats(); st.Free != st.Pages {
		s.t.Errorf("forgotten: %+v", st)
	}
	for page := range p.Pages().Spec().Pages {
		content := byte(0xff) // poison
		if page == 0 {
			content = 0
		}
		if i := slices.IndexFunc(p.Pages().Export(nil, page), func(b byte) bool { return b != content }); i >= 0 {
			s.t.Errorf("page %d is free and not scrubbed at byte %d", page, i)
		}
	}
	if err := errors.Join(p.Check(), p.Close()); err != nil {
		s.t.Error(err)
	}
}
