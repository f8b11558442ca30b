package glm

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	served map[tenant]int // tenants with waiting prompts: their last turn, at first when they came
	turnScratch
}

// turnScratch is what a turn writes to. It is kept from one to the next, so that
// turns allocate nothing, and let go when there is nothing to do: it holds on to
// generations that have ended.
type turnScratch struct {
	alive           []*generation
	decode, prefill []turn
	queued          map[tenant]int // prompts of each tenant so far
	batch           batch
}

// tenant is who takes turns; sessions without a tenant stand for themselves.
type tenant struct {
	tag   string
	alone *Session
}

func (g *generation) tenant() tenant {
	if g.session.tag != "" {
		return tenant{tag: g.session.tag}
	}
	return tenant{alone: g.session}
}

// prefillRows is how many rows of a step go to prompts while others decode:
// the price that a long prompt may put on everybody's next token.
const prefillRows = 64

func newScheduler(p *KVPool) *scheduler {
	s := &scheduler{
		pool: p, wake: make(chan struct{}, 1), done: make(chan struct{}),
		inflight: map[*generation]struct{}{}, served: map[tenant]int{},
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
		s.alive = append(s.alive[:0], s.running...)
		s.mu.Unlock()
		if quit {
			return
		}
		s.alive = slices.DeleteFunc(s.alive, func(g *generation) bool {
			over := g.over()
			if over {
				s.drop(g)
			}
			return over
		})
		if len(s.alive) == 0 {
			s.turnScratch = turnScratch{}
			<-s.wake
			continue
		}
		s.step(s.plan(s.alive))
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
	round  int  // prompts of its tenant before it
}

// plan chooses the turns of the next step.
func (s *scheduler) plan(running []*generation) []turn {
	decode, prefill := s.decode[:0], s.prefill[:0]
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
	s.decode, s.prefill = decode, prefill
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
	s.decode = turns[:0]
	return turns
}

// inTurn orders prompts: one of each tenant, beginning with the one served
// longest ago, then the next of each.
func (s *scheduler) inTurn(prefill []turn) []turn {
	if s.queued == nil {
		s.queued = map[tenant]int{}
	}
	clear(s.queued)
	for i := range prefill {
		k := prefill[i].g.tenant()
		if _, known := s.served[k]; !known {
			s.turns++
			s.served[k] = s.turns
		}
		prefill[i].round = s.queued[k]
		s.queued[k]++
	}
	// Who comes again later comes last: there is nothing to remember.
	maps.DeleteFunc(s.served, func(k tenant, _ int) bool { return s.queued[k] == 0 })
	slices.SortFunc(prefill, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(s.served[a.g.tenant()], s.served[b.g.tenant()]))
	})
	return prefill
}
