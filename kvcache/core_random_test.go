package kvcache

import (
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
