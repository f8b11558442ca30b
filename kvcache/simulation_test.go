package kvcache

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// The simulation runs seeded histories over two real pools that hand prompts
// to each other. Every goroutine but the one that history is on waits at a
// gate, so a seed decides everything, and a history can be run again with
// events left out: that is how a failing one is shrunk.

// go test -run Simulation -seeds 1000000 -timeout 0 runs a million; -seed says
// where they begin.
var (
	simSeeds = flag.Int("seeds", 1000, "seeds of the simulation")
	simSeed  = flag.Uint64("seed", 1, "first seed of the simulation")
)

// simOp is one event of a history. Its arguments choose among what there is at
// the time; what cannot happen does nothing, so any part of a history is one.
type simOp struct{ kind, a, b, c int }

// simKinds are the events, and how often each comes.
var simKinds = []struct {
	name   string
	weight int
	do     func(*simulation, simOp)
}{
	{"open", 3, (*simulation).open},
	{"close", 1, (*simulation).close},
	{"admit", 9, (*simulation).admit},
	{"leave the queue", 1, (*simulation).leave},
	{"begin", 26, (*simulation).begin},
	{"complete", 26, (*simulation).complete},
	{"abort", 3, (*simulation).abort},
	{"stop", 5, (*simulation).finish},
	{"end", 3, (*simulation).end},
	{"forget", 1, (*simulation).forget},
	{"scrub", 6, (*simulation).scrub},
	{"ticket", 5, (*simulation).ticket},
	{"send", 10, (*simulation).send},
	{"copy a page", 16, (*simulation).copyPage},
	{"commit", 8, (*simulation).commit},
	{"quiesce", 1, (*simulation).quiesce},
	{"late write", 4, (*simulation).lateWrite},
	{"wait", 1, (*simulation).sleep},
}

// simHistory draws a history.
func simHistory(seed uint64) []simOp {
	rng := rand.New(rand.NewPCG(seed, 7))
	total := 0
	for _, k := range simKinds {
		total += k.weight
	}
	history := make([]simOp, 40+rng.IntN(360))
	for i := range history {
		n, kind := rng.IntN(total), 0
		for n >= simKinds[kind].weight {
			n -= simKinds[kind].weight
			kind++
		}
		history[i] = simOp{kind, rng.IntN(64), rng.IntN(64), rng.IntN(64)}
	}
	return history
}

type simulation struct {
	pools    [2]*simPool
	sessions []*simSession
	requests []*simRequest // that were admitted, or wait
	steps    []*simStep
	sends    []*simSend
	replay   []simWrite   // writes that were once lawful
	jobs     []chan error // what goes on in the background
	ids      map[leaseKey]bool
	records  [2]map[uint64]Record // by pool and request, under the pool's lock

	leased map[leasedPage]uint64 // nonce
	apart  bool                  // no two tenants say the same
	abrupt bool                  // pools close with everything under way

	log    []string
	failed error
	met    map[string]int
}

type simPool struct {
	*Pool
	i     int
	store *simStore
}

// leasedPage is one lease of a page: nobody else may have the same.
type leasedPage struct {
	pool int
	ref  ref
}

// leaseKey names a request in the world.
type leaseKey struct {
	pool    int
	request uint64
}

type simSession struct {
	*Session
	pool   *simPool
	world  uint64
	tenant string
	closed bool
	token  int32    // first of its tokens
	heirOf []uint64 // without a tenant: it may read what these sessions sent
}

type simRequest struct {
	s      *simSession
	lease  *Lease
	tokens []int32 // prompt and output so far
	end    int
	remote bool
	cancel context.CancelFunc
	enters chan admission // until it is admitted, or again after a requeue
	mark   int
	cause  Cause
	step   *simStep
	ticket *Ticket     // that it issued
	waits  bool        // for a peer to write under it
	peer   *simRequest // that computes the prompt; of that one, who asked for it
	sent   bool
	over   bool

	admitted                   bool
	unsure                     bool // whether its last admission counts
	computed, reused, received int
}

// admission is how the wait for room ended.
type admission struct {
	lease *Lease // at first
	err   error
}

type simStep struct {
	Step
	pool *simPool
	of   []*simRequest
}

type simSend struct {
	from, to *simRequest
	done     chan struct{}
	manifest Manifest
	err      error
}

type simWrite struct {
	ticket Ticket
	page   ref
	rows   int32
	data   []byte
	of     *simRequest
}

func (s *simulation) say(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	if s.failed == nil {
		s.failed = fmt.Errorf(format, args...)
	}
}

// simulate runs a history and returns what went wrong.
func simulate(t *testing.T, seed uint64, history []simOp) (s *simulation) {
	synctest.Test(t, func(t *testing.T) {
		s = &simulation{met: map[string]int{}, ids: map[leaseKey]bool{}, records: [2]map[uint64]Record{{}, {}}, leased: map[leasedPage]uint64{}, apart: seed/64%2 == 0, abrupt: seed/128%2 == 0}
		s.start(t, seed)
		for _, op := range history {
			time.Sleep(time.Microsecond) // no two deadlines at once: their order would be chance
			simKinds[op.kind].do(s, op)
			synctest.Wait()
			s.settle()
			if s.judge(); s.failed != nil {
				s.giveUp()
				return
			}
		}
		s.stop()
		if s.failed != nil {
			s.giveUp()
		}
	})
	return s
}

func (s *simulation) start(t *testing.T, seed uint64) {
	for i, pages := range []int{9, 13} {
		cfg := Config{
			Pages: pages, PageSize: 4, Context: 36, AllowSmallerPool: true, Queue: 3, QueueWait: time.Second,
			Audit:     s.audit(i),
			Checksums: seed%2 == 0, Slack: int(seed/2%2) * 2, Admission: Admission(seed / 4 % 2),
		}
		store := newSimStore(pages, 4, seed/8%2 == 0)
		p, err := New(cfg, store)
		if err != nil {
			t.Fatal(err)
		}
		inside(p, func(c *core) {
			p.checked = false // judged after every event instead, without a panic
			c.hash = cheapHash
			if seed/16%4 == 0 {
				c.hash = func([]byte) Key { return Key{} } // every key collides with every other
			}
		})
		s.pools[i] = &simPool{p, i, store}
	}
	if err := Pair(s.pools[0].Pool, s.pools[1].Pool); err != nil {
		t.Fatal(err)
	}
}

// audit keeps what is said when a request ends.
func (s *simulation) audit(pool int) func(Record) {
	return func(r Record) {
		if r.Event == AuditEnded {
			s.records[pool][r.Request] = r
		}
	}
}

// call runs what may wait for scrubbing, and lets scrubs through until it is done.
func (s *simulation) call(what string, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for range 1000 {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
		}
		if !s.pools[0].store.scrubs.pass(0) && !s.pools[1].store.scrubs.pass(0) {
			break
		}
	}
	s.fail("PROGRESS: %s waits for nobody", what)
}

func pick[T any](i int, from []T, fit func(T) bool) (found T, ok bool) {
	var fits []T
	for _, x := range from {
		if fit(x) {
			fits = append(fits, x)
		}
	}
	if len(fits) == 0 {
		return found, false
	}
	return fits[i%len(fits)], true
}
