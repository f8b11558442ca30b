package kvcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// said is a request as the crowd's scheduler sees it: all tokens so far, and
// how many are wanted.
type said struct {
	lease  *Lease
	tokens []int32
	end    int
	over   chan struct{}
}

// crowdToken mixes the tenant into every token, so that a foreign row can
// never look right.
func crowdToken(tenant, n int) int32 { return int32(tenant*1_000_000 + n%3) }

// crowd runs tenants' conversations over one pool with two schedulers at once,
// random cancels, closes and forgettings. The tag store has no lock: under
// -race, any page that two parties use without order is reported.
func crowd(t *testing.T, requests int, change func(*Config)) {
	events := map[AuditEvent]int{} // under the pool's lock
	p, store := testPool(t, 40, func(c *Config) {
		c.Audit = func(r Record) { events[r.Event]++ }
		c.Context, c.Queue, c.QueueWait = 80, 100, time.Minute
		change(c)
	})
	const tenants = 6
	inbox := make(chan *said, 100)
	var clients, schedulers sync.WaitGroup
	for i := range 2 {
		schedulers.Go(func() { schedule(t, p, store, inbox, rand.New(rand.NewPCG(uint64(i), 2))) })
	}
	var finished, reused, cancelled counter
	for i := range 12 {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			tenant := i % tenants
			name := fmt.Sprintf("tenant %d", tenant)
			if tenant == 0 {
				name = "" // shares with nobody, so tokens tell the session
				tenant = 100 + i
			}
			s, err := p.NewSession(name)
			if err != nil {
				t.Error(err)
				return
			}
			var talk []int32
			for range requests {
				if len(talk) > 50 || rnd.IntN(8) == 0 {
					talk = nil
				}
				for range 1 + rnd.IntN(12) {
					talk = append(talk, crowdToken(tenant, rnd.IntN(3)))
				}
				output := 1 + rnd.IntN(10)
				l, err := s.Admit(t.Context(), Request{Tokens: talk, MaxTokens: output})
				if errors.Is(err, ErrSessionClosed) {
					s, _ = p.NewSession(name)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				r := &said{lease: l, tokens: append([]int32(nil), talk...), end: len(talk) + l.MaxTokens(), over: make(chan struct{})}
				reused.add(l.Reused())
				inbox <- r
				switch rnd.IntN(8) {
				case 0:
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
					l.End(CauseCancelled, context.Canceled)
					cancelled.add(1)
				case 1:
					if rnd.IntN(4) == 0 {
						s.Close()
						s, _ = p.NewSession(name)
					}
				case 2:
					if name != "" && rnd.IntN(4) == 0 {
						if err := p.Forget(t.Context(), name); err != nil {
							t.Error(err)
						}
					}
				}
				<-r.over
				if c, _ := l.End(CauseFailed, nil); c == CauseStop {
					talk = r.tokens
					finished.add(1)
				}
			}
			s.Close()
		})
	}
	clients.Wait()
	close(inbox)
	schedulers.Wait()
	st := p.Stats()
	t.Logf("%d finished, %d cancelled, %d tokens reused, %+v", finished.n, cancelled.n, reused.n, st)
	if st.Running+st.Waiting+st.Writable+st.Shared+st.Quarantined+st.Reserved != 0 || st.Integrity != 0 {
		t.Errorf("not at rest: %+v", st)
	}
	if p.cfg.Admission == Clamp && events[AuditRequeued] == 0 {
		t.Error("nobody was requeued")
	}
	if finished.n < requests*4 || reused.n == 0 || cancelled.n == 0 {
		t.Error("the crowd did too little")
	}
}

type counter struct {
	sync.Mutex
	n int
}

func (c *counter) add(n int) {
	c.Lock()
	c.n += n
	c.Unlock()
}

// schedule is a small continuous-batching loop.
func schedule(t *testing.T, p *Pool, store *tagStore, inbox <-chan *said, rnd *rand.Rand) {
	var active []*said
	away := 0                      // requeued requests, waiting for room
	back := make(chan *said, 1000) // and those that have found it
	for inbox != nil || len(active)+away > 0 {
		if len(active) == 0 { // nothing to do but wait
			select {
			case r, ok := <-inbox:
				if !ok {
					inbox = nil
					continue
				}
				active = append(active, r)
			case r := <-back:
				away--
				active = append(active, r)
			}
		}
		select {
		case r, ok := <-inbox:
			if !ok {
				inbox = nil
			} else {
				active = append(active, r)
			}
		case r := <-back:
			away--
			active = append(active, r)
		default:
		}
		requeued := func(r *said) {
			away++
			go func() {
				r.lease.Readmit(t.Context(), r.tokens) // on failure it has ended: the next Begin says so
				back <- r
			}()
		}
		active = turn(t, p, store, active, rnd, requeued)
	}
}

// turn runs one step over the active requests and returns those that go on.
func turn(t *testing.T, p *Pool, store *tagStore, active []*said, rnd *rand.Rand, requeued func(*said)) []*said {
	var entries []Entry
	byLease := map[*Lease]*said{}
	for _, r := range active {
		byLease[r.lease] = r
		at := r.lease.Valid()
		n := min(len(r.tokens)-at, 1+rnd.IntN(7))
		entries = append(entries, Entry{r.lease, at, r.tokens[at : at+n]})
	}
	if len(entries) == 0 {
		return nil
	}
	over, gone := map[*said]bool{}, map[*said]bool{}
	s, err := p.Begin(entries)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, ref := range s.Refused() {
		r := byLease[ref.Lease]
		if errors.Is(ref.Err, ErrRequeued) {
			requeued(r)
			gone[r] = true
			continue
		}
		if c, _ := r.lease.Cause(); errors.Is(ref.Err, ErrPoolExhausted) && c == CauseNone {
			continue // the other scheduler's step holds the pages
		}
		var flaw *IntegrityError
		if c, _ := r.lease.Cause(); errors.As(ref.Err, &flaw) && c == CauseNone {
			// Valid was read before somebody ended the request.
			t.Error(ref.Err)
		}
		over[r] = true
	}
	a := s.Arrays()
	if s.Epoch() != 0 {
		order := rnd.Perm(len(a.KVLen))
		up := pad(a, order, a.Stride+rnd.IntN(3), 1+rnd.IntN(3), len(order)+rnd.IntN(2))
		if err := s.Check(up); err != nil {
			t.Error(err)
		}
		leases := s.Leases()
		err := store.run(up, func(q, pos int, have row) error {
			if r := byLease[leases[order[q]]]; have.pos != uint64(pos) || have.token != uint64(r.tokens[pos]) {
				return fmt.Errorf("a row of session %d, position %d, token %d", have.session, have.pos, have.token)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if s.Epoch() != 0 && rnd.IntN(10) == 0 {
		s.Abort()
	} else if s.Epoch() != 0 {
		rs := results(s)
		for i, err := range s.Complete(rs) {
			r := byLease[s.Leases()[i]]
			if err != nil {
				over[r] = true
				continue
			}
			if int(a.KVLen[i]) == len(r.tokens) {
				if len(r.tokens) == r.end {
					r.lease.End(CauseStop, nil)
					over[r] = true
				} else {
					r.tokens = append(r.tokens, r.tokens[0]/1_000_000*1_000_000+int32(len(r.tokens)%3))
				}
			}
		}
	}
	var rest []*said
	for _, r := range active {
		switch {
		case over[r]:
			close(r.over)
		case !gone[r]:
			rest = append(rest, r)
		}
	}
	return rest
}

func TestCrowd(t *testing.T) {
	requests := 40
	if testing.Short() {
		requests = 15
	}
	t.Run("strict", func(t *testing.T) { crowd(t, requests, func(c *Config) { c.Checksums = true }) })
	t.Run("clamp", func(t *testing.T) { crowd(t, requests, func(c *Config) { c.Admission = Clamp }) })
}
