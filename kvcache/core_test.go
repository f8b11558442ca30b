package kvcache

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Long random histories of a larger world than the search can cover, with the
// invariants after every event. A failing history shrinks to a short one.
func TestRandomHistories(t *testing.T) {
	for name, w := range map[string]world{
		"strict": {cfg: Config{Pages: 14, PageSize: 4, Context: 32, Slack: 2}, prompts: [][]int32{{7, 7, 7, 7, 7, 7, 7, 7, 7}, {7, 7, 7, 7, 7, 8}}, outputs: []int{4, 9}, remote: true},
		"clamp":  {cfg: Config{Pages: 9, PageSize: 4, Context: 32, Admission: Clamp, Checksums: true}, prompts: [][]int32{{7, 7, 7, 7, 7}, {7}}, outputs: []int{27, 30}},
	} {
		w.prompts = append(w.prompts, []int32{7, 7, 7})
		w.outputs = append(w.outputs, 3)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := &searcher{w: w, c: newCore(w.cfg, 0), reached: map[string]int{}}
				s.c.hash = cheapHash
				length := rapid.SampledFrom([]int{2, 5, 10, 25, 60, 200}).Draw(rt, "events")
				for i := range length {
					m := rapid.Uint16().Draw(rt, "event")
					before := s.c.s.clone()
					events := s.events(&before)
					e := events[int(m)%len(events)]
					_, err := s.c.apply(e)
					if err != nil && !s.c.s.equal(&before) {
						rt.Fatalf("%s was refused with %q, yet the state changed", describe(e), err)
					}
					if err := s.c.check(); err != nil {
						rt.Fatalf("event %d, %s: %v", i, describe(e), err)
					}
				}
			})
		})
	}
}

// Equal states encode equally, a clone shares nothing with its origin.
func TestCloneAndEqual(t *testing.T) {
	c := newCore(small(Strict), 0)
	c.hash = cheapHash
	must := func(e event) effects {
		t.Helper()
		fx, err := c.apply(e)
		if err != nil {
			t.Fatal(err)
		}
		return fx
	}
	id := must(submit{session: 1, scope: Scope{Tenant: "a"}, prompt: 3, output: 2}).id
	must(admit{id, []int32{1, 2, 3}})
	epoch := must(begin{[]feed{{id, 0, []int32{1, 2, 3}}}}).epoch
	before := c.s.clone()
	if !before.equal(&c.s) {
		t.Fatal("a clone differs")
	}
	l := c.lease(id)
	must(complete{epoch, []arrival{{id.slot, l.nonce, 1, epoch, 3}}})
	if before.equal(&c.s) {
		t.Fatal("two states are taken for one")
	}
	if l := before.leases[0]; len(l.pending) != 3 || l.valid != 0 || before.pages[l.table[0].page].state != pageWritable {
		t.Fatal("the clone changed with its origin")
	}
}

// What is being scrubbed counts: nothing is evicted for pages that are on
// their way to be free.
func TestReclaimCountsWhatIsBeingScrubbed(t *testing.T) {
	c := newCore(small(Strict), 0)
	for i, s := range []pageState{pageSealed, pageDirty, pageDirty} {
		p := c.pop(&c.s.free)
		if s == pageDirty {
			c.push(&c.s.dirty, p, pageDirty)
			continue
		}
		c.s.pages[p] = page{state: pageSealed, owner: none, next: none, filled: 2, gen: uint64(i) + 1, tag: 9}
		c.s.index.insert(p, Key{}, Scope{Tenant: "a"}, none, []int32{1, 2})
		c.s.index.lay(p)
	}
	for _, step := range []struct {
		pages              int32
		scrubbing, resting int32
	}{{1, 1, 1}, {2, 2, 1}, {2, 2, 1}, {3, 3, 0}} {
		if _, err := c.apply(reclaim{step.pages}); err != nil {
			t.Fatal(err)
		}
		if c.s.scrubbing != step.scrubbing || c.s.index.rest.n != step.resting {
			t.Fatalf("reclaim %d: %d being scrubbed, %d resting, want %d and %d", step.pages, c.s.scrubbing, c.s.index.rest.n, step.scrubbing, step.resting)
		}
	}
}

// driver applies events that must be accepted.
type driver struct {
	*testing.T
	*core
}

func (d driver) must(e event) effects {
	d.Helper()
	fx, err := d.apply(e)
	if err != nil {
		d.Fatal(err)
	}
	if err := d.check(); err != nil {
		d.Fatal(err)
	}
	return fx
}

// running admits a prompt and puts all of it into a step.
func (d driver) running(prompt []int32) (leaseID, uint64) {
	d.Helper()
	id := d.must(submit{session: 1, scope: Scope{Tenant: "a"}, prompt: len(prompt), output: 1}).id
	d.must(admit{id, prompt})
	return id, d.must(begin{[]feed{{id, 0, prompt}}}).epoch
}

// The core checks the echo itself, whatever the shell does.
func TestArrivalNamesLeaseAndSession(t *testing.T) {
	for name, spoil := range map[string]func(*arrival){
		"nonce":   func(a *arrival) { a.nonce++ },
		"session": func(a *arrival) { a.session++ },
		"epoch":   func(a *arrival) { a.epoch++ },
		"slot":    func(a *arrival) { a.slot++ },
	} {
		d := driver{t, newCore(small(Strict), 0)}
		id, epoch := d.running([]int32{1, 2, 3})
		a := arrival{id.slot, d.lease(id).nonce, 1, epoch, 3}
		spoil(&a)
		if fx := d.must(complete{epoch, []arrival{a}}); fx.outcomes[0] == nil || d.lease(id).valid != 0 {
			t.Errorf("%s: %v, mark %d", name, fx.outcomes[0], d.lease(id).valid)
		}
	}
}

// A step and a copy of the same rows exclude each other: the step would write into
// the last page while the copy reads it.
func TestNoStepWhileRowsAreCopied(t *testing.T) {
	d := driver{t, newCore(small(Strict), 0)}
	id, epoch := d.running([]int32{1, 2, 3})
	l := d.lease(id)
	done := func(epoch uint64) {
		t.Helper()
		d.must(complete{epoch, []arrival{{id.slot, l.nonce, l.session, epoch, 1}}})
	}
	done(epoch)
	epoch = d.must(begin{[]feed{{id, 1, []int32{2}}}}).epoch
	if _, err := d.apply(copying{id}); err == nil {
		t.Fatal("a copy begins in a step")
	}
	done(epoch)
	d.must(copying{id})
	last := begin{[]feed{{id, 2, []int32{3}}}}
	if _, err := d.apply(last); !errors.Is(err, ErrBinding) {
		t.Fatalf("a step during a copy: %v", err)
	}
	d.must(copied{id})
	done(d.must(last).epoch)
	if l := d.lease(id); l.valid != 3 {
		t.Errorf("mark %d, want 3", l.valid)
	}
	d.must(end{id, CauseStop})
}

// No two leases of a page have the same generation: a handle of an earlier one
// never fits.
func TestGenerationRisesWithEveryLease(t *testing.T) {
	d := driver{t, newCore(small(Strict), 0)}
	seen := map[ref]bool{}
	for round := range 6 {
		id, epoch := d.running([]int32{int32(round), 2, 3})
		for _, r := range d.lease(id).table {
			if seen[r] || r.gen == 0 {
				t.Fatalf("round %d: page %d is leased with generation %d again", round, r.page, r.gen)
			}
			seen[r] = true
		}
		d.must(abort{epoch})
		d.must(end{id, CauseCancelled})
		d.must(release{id})
		for _, r := range d.must(reclaim{4}).scrub {
			d.must(scrubbed{r})
		}
	}
	if len(seen) != 12 {
		t.Fatalf("%d leases of pages, want 12", len(seen))
	}
}
