package kvcache

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
)

// The search of two peers walks all histories of their world, breadth first,
// like the search of one core. It keeps the moves, not the states: a state is
// made again from its history when its turn comes.

// walked is a state on the way.
type walked struct {
	parent int32
	depth  int32
	move   move
}

type peerSearch struct {
	t       *testing.T
	start   *peers
	speak   []speaker
	seen    map[[2]uint64]struct{}
	all     []walked
	reached map[string]int
	seeds   [2]maphash.Seed
	enc     [2]encoder
	key     []byte
}

// pathStep is the nth move of a name.
type pathStep struct {
	name string
	nth  int
}

// handOff is one whole hand-off. Breadth first, its end is far from the start.
var handOff = []pathStep{
	{"submit", 0}, {"admit", 0}, {"issue", 0}, {"accept", 0}, {"begin", 2}, {"complete", 0}, {"start to copy", 0},
	{"copy a page", 0}, {"copy a page", 0}, {"send the manifest", 0}, {"commit", 0}, {"begin", 4},
}

// searchPeers walks until there are limit states, or no more.
func searchPeers(t *testing.T, a Admission, speak []speaker, path []pathStep, limit int) *peerSearch {
	t.Helper()
	s := &peerSearch{
		t: t, start: newPeers(a), speak: speak, seen: map[[2]uint64]struct{}{}, reached: map[string]int{},
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	s.visit(s.start, walked{parent: -1})
	for i, step := range path { // it begins at every point of this history
		w := s.replay(int32(i))
		var m []move
		for _, have := range s.moves(w) {
			if have.name == step.name {
				m = append(m, have)
			}
		}
		if len(m) <= step.nth {
			t.Fatalf("event %d of the path: no %s", i, step.name)
		}
		if _, err := w.apply(m[step.nth]); err != nil {
			t.Fatalf("event %d of the path: %v", i, err)
		}
		w.tidy()
		s.visit(w, walked{int32(i), int32(i) + 1, m[step.nth]})
	}
	transitions := 0
	for i := 0; i < len(s.all) && len(s.all) < limit; i++ {
		before := s.replay(int32(i))
		for _, m := range s.moves(before) {
			transitions++
			w := before.clone(m.pool)
			fx, err := w.apply(m)
			var broken *breach
			switch {
			case errors.As(err, &broken):
				s.fail(int32(i), m, err)
			case err != nil:
				if !w.cores[0].s.equal(&before.cores[0].s) || !w.cores[1].s.equal(&before.cores[1].s) {
					s.fail(int32(i), m, fmt.Errorf("refused with %q, yet the state changed", err))
				}
				s.reached["refused "+m.name]++
				continue
			}
			w.tidy()
			if err := w.trace(before, m, fx); err != nil {
				s.fail(int32(i), m, err)
			}
			s.landmarks(before, w, m, fx)
			s.visit(w, walked{int32(i), s.all[i].depth + 1, m})
		}
	}
	t.Logf("%v: %d distinct states, %d transitions, up to %d events deep", a, len(s.all), transitions, s.all[len(s.all)-1].depth)
	return s
}

func (s *peerSearch) visit(w *peers, at walked) {
	code := s.encode(w)
	key := [2]uint64{maphash.Bytes(s.seeds[0], code), maphash.Bytes(s.seeds[1], code)}
	if _, ok := s.seen[key]; ok {
		return
	}
	s.seen[key] = struct{}{}
	if err := w.check(); err != nil {
		s.fail(at.parent, at.move, err)
	}
	s.all = append(s.all, at)
}

// history returns the moves that lead to a state.
func (s *peerSearch) history(i int32) []move {
	var moves []move
	for ; i > 0; i = s.all[i].parent {
		moves = append(moves, s.all[i].move)
	}
	slices.Reverse(moves)
	return moves
}

func (s *peerSearch) replay(i int32) *peers {
	w := s.start.clone(-1)
	for _, m := range s.history(i) {
		w.apply(m)
		w.tidy()
	}
	return w
}

func (s *peerSearch) fail(parent int32, last move, err error) {
	s.t.Helper()
	var text []string
	for _, m := range append(s.history(parent), last) {
		if m.e == nil {
			text = append(text, m.name)
			continue
		}
		text = append(text, fmt.Sprintf("pool %d: %s", m.pool, describe(m.e)))
	}
	s.t.Fatalf("%v\nafter:\n  %s", err, strings.Join(text, "\n  "))
}

// encode is the canonical encoding: both cores under renaming, the memory, and
// the engine.
func (s *peerSearch) encode(w *peers) []byte {
	s.key = s.key[:0]
	g := &w.engine
	for i, c := range w.cores {
		s.enc[i].more = func(b []byte, n *naming) []byte {
			for _, p := range n.order {
				for j := range int32(peerPageSize) {
					k := w.cells[i][p*peerPageSize+j]
					b = append(b, byte(k.scope), byte(k.pos), byte(k.token))
				}
			}
			for _, slot := range n.leases {
				b = append(b, byte(w.snaps[i][slot].at)) // of an ended request: the core has forgotten it
			}
			handle := func(id leaseID) {
				if c.lease(id) == nil {
					b = append(b, 255)
				} else {
					b = append(b, byte(n.slot(id.slot)))
				}
			}
			if i == 0 {
				handle(w.source)
				return append(b, w.deals.nonce[0])
			}
			for _, t := range []Ticket{w.deals, w.ready, g.ticket, g.last.ticket} {
				if t.nonce == (Nonce{}) {
					b = append(b, 0)
					continue
				}
				b = append(b, t.nonce[0])
				handle(t.lease)
				for _, r := range t.pages {
					b = append(b, byte(n.page(r.page)), byte(min(c.s.pages[r.page].gen-r.gen, 2)))
				}
			}
			b = append(b, flags(g.busy), byte(g.next), byte(g.last.rows), byte(slices.Index(g.last.ticket.pages, g.last.ref)+1))
			for _, k := range g.last.data {
				b = append(b, byte(k.scope), byte(k.pos), byte(k.token))
			}
			return b
		}
		s.key = append(s.key, s.enc[i].canonical(&c.s)...)
		s.key = append(s.key, 254)
	}
	return s.key
}

// moves lists what can happen.
func (s *peerSearch) moves(w *peers) (out []move) {
	for pool, c := range w.cores {
		add := func(e event) { out = append(out, move{pool: int8(pool), e: e, name: name(e)}) }
		st := &c.s
		used := 0
		var ready []leaseID
		for i := range st.leases {
			l := &st.leases[i]
			if l.phase == phaseVacant {
				continue
			}
			used++
			id := leaseID{int32(i), l.request}
			switch l.phase {
			case phaseWaiting:
				n := l.prompt
				if l.requeued {
					n = min(n+1, l.limit)
				}
				add(admit{id, spoken(l)[:n]})
				add(end{id, CauseCancelled})
			case phaseLive:
				add(end{id, CauseCancelled})
				if l.step == 0 && l.pinned[byWriter] == 0 && (!l.remote || len(l.table) > 0) {
					ready = append(ready, id)
				}
				if c.cfg.Admission == Clamp && l.step == 0 {
					add(grow{id, 3})
				}
				if l.remote && len(l.table) == 0 {
					add(issue{id, w.nonce()})
				}
			case phaseEnded:
				add(end{id, CauseLength})
				add(release{id})
			}
			if l.step != 0 && firstOfStep(st, i) {
				add(abort{l.step})
				add(complete{l.step, arrivals(st, l.step, 0)})
				add(complete{l.step, arrivals(st, l.step, 1)})
				for _, spoil := range []func(*arrival){
					func(a *arrival) { a.nonce-- }, func(a *arrival) { a.session++ }, func(a *arrival) { a.epoch-- },
				} {
					wrong := arrivals(st, l.step, 0)
					spoil(&wrong[0])
					add(complete{l.step, wrong})
				}
			}
			if l.ticket != (Nonce{}) {
				t := Ticket{lease: id, nonce: l.ticket, tokens: int(l.prompt), pages: slices.Clone(l.table[:l.pinned[byWriter]])}
				tokens := spoken(l)[:l.prompt]
				if w.ready.nonce == t.nonce { // the manifest has come
					add(commit{id: id, ticket: t, manifest: Manifest{ticket: w.ready}, tokens: tokens})
				} else { // one that claims too much
					add(commit{id: id, ticket: t, manifest: Manifest{ticket: t}, tokens: tokens})
				}
				short := t
				short.tokens--
				add(commit{id: id, ticket: t, manifest: Manifest{ticket: short}, tokens: tokens})
				add(quiesced{id, Nonce{255}})
				if !w.engine.busy || w.engine.ticket.nonce != t.nonce {
					add(quiesced{id, l.ticket})
				}
				if used0(&w.cores[0].s) == 0 && l.phase == phaseLive {
					out = append(out, move{pool: -1, do: func(w *peers) (effects, error) { return w.accept(t, w.cores[1].lease(t.lease)) }, name: "accept"})
				}
			}
		}
		for i, id := range ready {
			l := c.lease(id)
			add(begin{[]feed{{id, l.valid + 1, []int32{5}}}})
			for _, rows := range []int32{1, 3} {
				f := feed{id, l.valid, spoken(l)[l.valid:min(l.valid+rows, 8)]}
				add(begin{[]feed{f}})
				for _, other := range ready[i+1:] {
					o := c.lease(other)
					add(begin{[]feed{f, {other, o.valid, spoken(o)[o.valid:min(o.valid+1, 8)]}}})
				}
			}
		}
		if pool == 1 && used < 2 {
			for _, k := range s.speak {
				add(submit{session: 1, scope: k.scope, prompt: len(k.prompt), output: k.output, remote: k.remote})
			}
		}
		add(reclaim{1})
		add(forget{scope: Scope{Tenant: "a"}})
		if used > 0 {
			add(shut{session: 1})
		}
		for i := range st.pages {
			if st.pages[i].state == pageScrubbing {
				add(scrubbed{ref{int32(i), st.pages[i].gen}})
			}
		}
	}
	g := &w.engine
	act := func(name string, do func(*peers) (effects, error)) {
		out = append(out, move{pool: -1, do: do, name: name})
	}
	if l := w.cores[0].lease(w.source); !g.busy && l != nil && l.phase == phaseLive && int(l.valid) == w.deals.tokens && w.ready.nonce != w.deals.nonce {
		act("start to copy", (*peers).start)
	}
	if g.busy && g.next < len(g.from) {
		act("copy a page", (*peers).deliver)
	}
	if g.busy && g.next == len(g.from) {
		act("send the manifest", (*peers).finish)
	}
	if g.last.rows > 0 {
		act("late write", func(w *peers) (effects, error) { return w.write(w.engine.last) })
	}
	return out
}

func used0(st *state) (n int) {
	for i := range st.leases {
		if st.leases[i].phase != phaseVacant {
			n++
		}
	}
	return n
}

// nonce is one that nobody holds.
func (w *peers) nonce() Nonce {
	for k := byte(1); ; k++ {
		n := Nonce{k}
		held := n == w.deals.nonce || n == w.ready.nonce || n == w.engine.ticket.nonce || n == w.engine.last.ticket.nonce
		for i := range w.cores[1].s.leases {
			held = held || w.cores[1].s.leases[i].ticket == n
		}
		if !held {
			return n
		}
	}
}

// stage says how far the hand-off of a request is.
func (w *peers) stage(l *lease) string {
	switch {
	case !l.remote && l.received == 0:
		return ""
	case l.phase == phaseWaiting:
		return "submitted"
	case l.received > 0 && l.step != 0:
		return "decoding"
	case l.received > 0:
		return "committed"
	case l.ticket == Nonce{}:
		return "admitted"
	case w.ready.nonce == l.ticket:
		return "the manifest came"
	case w.engine.busy && w.engine.ticket.nonce == l.ticket:
		return fmt.Sprintf("%d pages copied", w.engine.next)
	case w.deals.nonce != l.ticket:
		return "the ticket was issued"
	}
	if from := w.cores[0].lease(w.source); from != nil && from.step != 0 {
		return "the peer computes"
	}
	return "the peer accepted"
}

// landmarks notes the situations that a search must have met to mean anything.
func (s *peerSearch) landmarks(before, after *peers, m move, fx effects) {
	note := func(what string) { s.reached[what]++ }
	if m.e == nil {
		note(m.name)
		if m.name == "copy a page" && !after.engine.busy {
			note("copy refused")
		}
		return
	}
	was, is := &before.cores[m.pool].s, &after.cores[m.pool].s
	switch e := m.e.(type) {
	case abort:
		note("abort")
		for i := range was.leases {
			if was.leases[i].step == e.epoch && was.leases[i].phase == phaseEnded {
				note("abort after the end")
			}
		}
	case end:
		l := before.cores[m.pool].lease(e.id)
		if fx.won {
			if stage := before.stage(l); m.pool == 1 && stage != "" {
				note("cancelled when " + stage)
			}
			if l.step != 0 {
				note("end during a step")
			}
			if l.reused > 0 && l.computed == 0 {
				note("warm hit, then cancel")
			}
		} else {
			note("second cause loses")
		}
	case forget:
		for i := range was.leases {
			if was.leases[i].sealed > 0 && was.leases[i].scope == e.scope {
				note("forget during use")
			}
		}
	case admit:
		if is.leases[e.id.slot].reused > 0 {
			note("warm hit")
		}
	case reclaim:
		for i := range was.pages {
			if pg := &was.pages[i]; pg.state == pageSealed && pg.pins > 0 && pg.uses == 0 && was.dirty.n+was.scrubbing == 0 {
				note("evict while pinned refused")
			}
		}
		if is.index.rest.n < was.index.rest.n {
			note("evicted")
		}
	case commit:
		if fx.refusal != nil {
			note("hand-off refused")
		} else {
			note("hand-off committed")
		}
	case grow:
		for _, id := range fx.ended {
			if is.leases[id.slot].phase == phaseWaiting {
				note("requeued")
			} else {
				note("ended as context")
			}
		}
	}
	for i := range was.pages {
		if was.pages[i].state == pageQuarantined && is.pages[i].state == pageDirty {
			note("quarantine released")
		}
	}
}

func TestSearchTwoPeers(t *testing.T) {
	limit, full := 500_000, true
	switch {
	case *searchStates > 0:
		limit = *searchStates
	case testing.Short():
		limit, full = 20_000, false
	}
	tenant, private := Scope{Tenant: "a"}, Scope{Session: 2}
	for _, c := range []struct {
		admission Admission
		speak     []speaker
		path      []pathStep
		limit     int
		want      []string
	}{
		{Strict, []speaker{
			{tenant, []int32{1, 2, 3}, 1, true},
			{tenant, []int32{1, 2, 3}, 1, false},
			{tenant, []int32{1, 4}, 1, false},
			{private, []int32{1}, 7, false},
		}, handOff, limit, []string{
			"copy a page", "copy refused", "late write", "refused late write", "hand-off committed", "hand-off refused", "refused begin", "refused admit",
			"abort", "abort after the end", "end during a step", "second cause loses", "warm hit", "warm hit, then cancel", "forget during use",
			"evicted", "evict while pinned refused", "quarantine released",
			"cancelled when submitted", "cancelled when admitted", "cancelled when the ticket was issued", "cancelled when the peer accepted",
			"cancelled when the peer computes", "cancelled when 0 pages copied", "cancelled when 1 pages copied", "cancelled when 2 pages copied",
			"cancelled when the manifest came", "cancelled when committed", "cancelled when decoding",
		}},
		{Clamp, []speaker{
			{tenant, []int32{1, 4}, 9, false}, // cut to what the context leaves
			{private, []int32{1}, 9, false},
		}, nil, max(limit/10, 20_000), []string{"requeued", "quarantine released", "evicted", "abort"}},
	} {
		s := searchPeers(t, c.admission, c.speak, c.path, c.limit)
		if len(s.all) < c.limit {
			t.Logf("the space is closed")
		}
		for _, what := range c.want {
			if s.reached[what] == 0 && full {
				t.Errorf("%v: never reached: %s", c.admission, what)
			}
		}
		if !full && s.reached["hand-off committed"]+s.reached["requeued"] == 0 {
			t.Errorf("%v: no hand-off and nobody requeued", c.admission)
		}
	}
}

// The world must be able to see: with one thing in it wrong, it says which.
func TestPeersSeeABrokenWorld(t *testing.T) {
	s := &peerSearch{speak: []speaker{{Scope{Tenant: "a"}, []int32{1, 2, 3}, 1, true}}}
	along := func(path []pathStep) *peers {
		w := newPeers(Strict)
		for _, step := range path {
			for _, m := range s.moves(w) {
				if m.name == step.name {
					if step.nth--; step.nth < 0 {
						w.apply(m)
						w.tidy()
						break
					}
				}
			}
		}
		return w
	}
	computing, w := along(handOff[:5]), along(handOff[:8]) // in a step; one page copied
	if err := w.check(); err != nil || !w.engine.busy || w.engine.next != 1 {
		t.Fatal(err, w.engine)
	}
	from := w.source.slot
	for _, b := range []struct {
		rule string
		mar  func(*peers)
	}{
		{"LEAK", func(w *peers) { w.at(0, w.cores[0].s.leases[from].table[1], 2).token++ }},
		{"LEAK", func(w *peers) { w.at(0, w.cores[0].s.leases[from].table[0], 0).scope++ }},
		{"DIRTY", func(w *peers) { w.cells[1][w.cores[1].s.free.head*peerPageSize+1] = junkCell }},
		{"QUIET", func(w *peers) { w.engine.from = slices.Clone(w.engine.from); w.engine.from[0].gen++ }},
		{"BIND", func(w *peers) { *w = *computing; w.snaps[0][from].table = w.snaps[0][from].table[:1] }},
	} {
		marred := w.clone(-1)
		b.mar(marred)
		var broken *breach
		if err := marred.check(); !errors.As(err, &broken) || broken.rule != b.rule {
			t.Errorf("%s: %v", b.rule, err)
		}
	}
	for _, b := range []struct {
		rule string
		mar  func(*peers)
	}{
		{"TERM", func(w *peers) { w.cores[1].s.leases[0].cause = CauseStop }},
		{"LOUD", func(w *peers) { w.cores[1].s.leases[0].prompt-- }},
		{"LOUD", func(w *peers) { w.cores[0].s.leases[from].computed-- }},
		{"ID", func(w *peers) { w.cores[1].s.leases[0].request-- }},
		{"ROW", func(w *peers) { w.cores[0].s.leases[from].valid++; w.cores[0].s.leases[from].computed++ }},
		{"GEN", func(w *peers) { w.cores[1].s.pages[1].gen-- }},
		{"GEN", func(w *peers) { w.cores[1].s.pages[w.cores[1].s.free.head].state = pageWritable }},
	} {
		before, after := w.clone(-1), w.clone(-1)
		if b.rule == "TERM" {
			before.cores[1].s.leases[0].cause = CauseRefused
		}
		b.mar(after)
		var broken *breach
		if err := after.trace(before, move{name: "nothing"}, effects{}); !errors.As(err, &broken) || broken.rule != b.rule {
			t.Errorf("%s: %v", b.rule, err)
		}
	}
}
