package kvcache

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
)

// The search walks all histories of a small world, breadth first: every event
// that can happen in a state happens. States that differ only by the names of
// pages, slots and identities are one state.

// go test -run Search -states 1000000 walks further than the default.
var searchStates = flag.Int("states", 0, "distinct states of each searched world")

// world is what the search explores: a core, and how to make events for it.
type world struct {
	cfg     Config
	prompts [][]int32 // of different lengths; searchScopes say whose
	outputs []int
	remote  bool // one more request, whose prompt a peer computes
	limit   int  // distinct states
}

// cheapHash stands in for SHA-256: a good hash is not what is searched.
func cheapHash(b []byte) Key {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	var k Key
	for i := range 8 {
		k[i] = byte(h >> (8 * i))
	}
	return k
}

// visited is a state on the way: its parent and the event tell the history.
type visited struct {
	state  state
	parent int32
	event  event
}

type searcher struct {
	t       *testing.T
	w       world
	c       *core
	seen    map[[2]uint64]int32
	all     []visited
	reached map[string]int
	seeds   [2]maphash.Seed
	enc     encoder
}

func search(t *testing.T, w world) *searcher {
	t.Helper()
	s := &searcher{t: t, w: w, c: newCore(w.cfg, 0), seen: map[[2]uint64]int32{}, reached: map[string]int{}}
	s.c.hash = cheapHash
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	s.visit(s.c.s, -1, nil)
	transitions := 0
	for i := 0; i < len(s.all) && len(s.all) < w.limit; i++ {
		for _, e := range s.events(&s.all[i].state) {
			transitions++
			s.c.s = s.all[i].state.clone()
			fx, err := s.c.apply(e)
			if err != nil {
				if before := &s.all[i].state; !s.c.s.equal(before) {
					s.fail(int32(i), e, fmt.Errorf("refused with %q, yet the state changed", err))
				}
				s.note("refused " + name(e))
				continue
			}
			s.landmarks(&s.all[i].state, e, fx)
			s.visit(s.c.s, int32(i), e)
		}
		s.all[i].state = state{} // expanded: only the history is kept
	}
	t.Logf("%v: %d distinct states, %d transitions", w.cfg.Admission, len(s.all), transitions)
	return s
}

func (s *searcher) visit(st state, parent int32, e event) {
	code := s.enc.canonical(&st)
	key := [2]uint64{maphash.Bytes(s.seeds[0], code), maphash.Bytes(s.seeds[1], code)}
	if _, ok := s.seen[key]; ok {
		return
	}
	s.seen[key] = int32(len(s.all))
	s.c.s = st
	if err := s.c.check(); err != nil {
		s.fail(parent, e, err)
	}
	s.all = append(s.all, visited{st, parent, e})
}

func (s *searcher) fail(parent int32, last event, err error) {
	s.t.Helper()
	history := []string{describe(last)}
	for i := parent; i >= 0; i = s.all[i].parent {
		history = append(history, describe(s.all[i].event))
	}
	slices.Reverse(history)
	s.t.Fatalf("%v\nafter:\n  %s", err, strings.Join(history, "\n  "))
}

func describe(e event) string {
	if e == nil {
		return "start"
	}
	return fmt.Sprintf("%s %+v", name(e), e)
}

func name(e event) string { return strings.TrimPrefix(fmt.Sprintf("%T", e), "kvcache.") }

func (s *searcher) note(what string) { s.reached[what]++ }

// searchScopes are the scopes of the prompts, in turn.
var searchScopes = []Scope{{Tenant: "a"}, {Session: 2}}

// events lists what can happen in a state.
func (s *searcher) events(st *state) []event {
	var out []event
	size := s.w.cfg.PageSize
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
			said := s.speech(l)
			out = append(out, admit{id, said}, end{id, CauseCancelled})
		case phaseLive:
			out = append(out, end{id, CauseStop})
			if l.step == 0 && l.pinned[byWriter] == 0 && l.pinned[byCopy] == 0 {
				ready = append(ready, id)
			}
			if s.w.cfg.Admission == Clamp && l.step == 0 {
				out = append(out, grow{id, 1})
			}
			if l.valid > 0 && l.pinned[byCopy] == 0 && l.step == 0 {
				out = append(out, copying{id})
			}
			if l.remote && len(l.table) == 0 {
				out = append(out, issue{id, Nonce{byte(l.request)}})
			}
		case phaseEnded:
			out = append(out, end{id, CauseLength}, release{id})
		}
		if l.pinned[byCopy] > 0 {
			out = append(out, copied{id})
		}
		if l.ticket != (Nonce{}) {
			for k, r := range l.table {
				rows := int32(min(size, int(l.prompt)-k*size))
				out = append(out, write{id, l.ticket, r, rows})
			}
			if len(l.table) > 0 {
				r := l.table[0]
				out = append(out, write{id, l.ticket, ref{r.page, r.gen - 1}, 1}, write{id, Nonce{255}, r, 1})
			}
			t := Ticket{lease: id, nonce: l.ticket, tokens: int(l.prompt), pages: l.table}
			out = append(out, quiesced{id, l.ticket}, commit{id: id, ticket: t, manifest: Manifest{ticket: t}, tokens: s.speech(l)[:l.prompt]})
			short := t
			short.tokens--
			out = append(out, commit{id: id, ticket: t, manifest: Manifest{ticket: short}, tokens: s.speech(l)[:l.prompt]})
		}
		if l.step != 0 && firstOfStep(st, i) {
			out = append(out, abort{l.step}, complete{epoch: l.step})
			out = append(out, complete{l.step, arrivals(st, l.step, 0)}, complete{l.step, arrivals(st, l.step, 1)})
		}
	}
	for i, id := range ready {
		for _, rows := range []int{1, 2} {
			f := s.rowsOf(st, id, rows)
			out = append(out, begin{[]feed{f}})
			for _, other := range ready[i+1:] {
				out = append(out, begin{[]feed{f, s.rowsOf(st, other, 1)}})
			}
		}
	}
	if used < 3 {
		for k, p := range s.w.prompts {
			out = append(out, submit{session: 1, scope: searchScopes[k%2], prompt: len(p), output: s.w.outputs[k]})
		}
		if s.w.remote {
			out = append(out, submit{session: 1, scope: searchScopes[0], prompt: 3, output: 1, remote: true})
		}
	}
	out = append(out, reclaim{1}, forget{scope: searchScopes[0]}, end{leaseID{0, 1 << 40}, CauseStop}, abort{1 << 40})
	if used > 0 {
		out = append(out, shut{session: 1})
	}
	for i := range st.pages {
		if st.pages[i].state == pageScrubbing {
			out = append(out, scrubbed{ref{int32(i), st.pages[i].gen}})
		}
		if st.pages[i].state == pageSealed {
			out = append(out, corrupt{ref{int32(i), st.pages[i].gen}})
		}
	}
	return out
}

// speech is everything a request says, prompt and output.
func (s *searcher) speech(l *lease) []int32 {
	i := slices.IndexFunc(s.w.prompts, func(p []int32) bool { return len(p) == int(l.prompt) })
	p := s.w.prompts[i]
	if l.requeued {
		return append(slices.Clone(p), 7)[:min(int(l.prompt)+1, int(l.limit))]
	}
	return p
}

func (s *searcher) rowsOf(st *state, id leaseID, rows int) feed {
	l := &st.leases[id.slot]
	said := append(slices.Clone(s.speech(l)), 7, 7, 7, 7)
	end := min(int(l.valid)+rows, len(said))
	return feed{id, l.valid, said[l.valid:end]}
}

func firstOfStep(st *state, slot int) bool {
	for i := range slot {
		if st.leases[i].step == st.leases[slot].step {
			return false
		}
	}
	return true
}

// arrivals echoes a step whose last `lost` rows of each sequence did not come.
func arrivals(st *state, epoch uint64, lost int) []arrival {
	var out []arrival
	for i := range st.leases {
		if l := &st.leases[i]; l.step == epoch {
			out = append(out, arrival{int32(i), l.nonce, l.session, epoch, int32(max(len(l.pending)-lost, 0))})
		}
	}
	return out
}

// landmarks notes the situations that a search must have met to mean anything.
func (s *searcher) landmarks(before *state, e event, fx effects) {
	after := &s.c.s
	states := func(st *state, want pageState) (n int) {
		for i := range st.pages {
			if st.pages[i].state == want {
				n++
			}
		}
		return n
	}
	switch e := e.(type) {
	case abort:
		s.note("abort")
	case end:
		l := &before.leases[e.id.slot]
		if fx.won && l.step != 0 {
			s.note("end during a step")
		}
		if fx.won && l.reused > 0 && l.computed == 0 {
			s.note("warm hit, then cancel")
		}
		if !fx.won {
			s.note("second cause loses")
		}
	case forget:
		for i := range before.leases {
			if before.leases[i].sealed > 0 && before.leases[i].scope == e.scope {
				s.note("forget during use")
			}
		}
	case admit:
		if l := after.leases[e.id.slot]; l.reused > 0 {
			s.note("warm hit")
			if l.requeued {
				s.note("warm hit after requeue")
			}
		}
	case reclaim:
		for i := range before.pages {
			if pg := &before.pages[i]; pg.state == pageSealed && pg.uses == 0 && pg.pins > 0 && before.dirty.n+before.scrubbing == 0 {
				s.note("evict while pinned refused")
			}
		}
		if after.index.rest.n < before.index.rest.n {
			s.note("evicted")
		}
	case commit:
		if fx.refusal != nil {
			s.note("hand-off refused")
		} else {
			s.note("hand-off committed")
		}
	case grow:
		for _, id := range fx.ended {
			if after.leases[id.slot].phase == phaseWaiting {
				s.note("requeued")
			} else {
				s.note("ended as context")
			}
		}
	case complete:
		if len(e.arrivals) > 0 && before.dirty.n < after.dirty.n && states(before, pageQuarantined) == states(after, pageQuarantined) {
			s.note("twin merged")
		}
	}
	if states(before, pageQuarantined) > states(after, pageQuarantined) {
		s.note("quarantine released")
	}
	if states(after, pageQuarantined) > 0 {
		s.note("quarantined")
	}
}

// encoder finds the canonical encoding of a state under renaming of pages,
// slots and identities. Pages are named in the order in which the leases and
// lists reach them; leases are ordered by what can be said of them without
// names, and all orders of those that look alike are tried.
type encoder struct {
	n         naming
	best, buf []byte
	more      func([]byte, *naming) []byte // what else belongs to the state
}

func (x *encoder) canonical(s *state) []byte {
	n := &x.n
	n.ids = n.ids[:0]
	add := func(v uint64) {
		if v != 0 {
			n.ids = append(n.ids, v)
		}
	}
	looks := make([]string, len(s.leases))
	n.leases = n.leases[:0]
	for i := range s.leases {
		l := &s.leases[i]
		add(l.request)
		add(l.nonce)
		add(l.step)
		looks[i] = string([]byte{
			byte(l.phase), byte(l.cause), byte(l.scope.Session), byte(l.prompt), byte(l.valid), byte(len(l.table)), byte(l.sealed),
			byte(l.pinned[byStep]), byte(l.pinned[byCopy]), byte(l.pinned[byWriter]), flags(l.requeued, l.private, l.remote, l.released),
		})
		n.leases = append(n.leases, int32(i))
	}
	for i := range s.pages {
		add(s.pages[i].tag)
	}
	slices.Sort(n.ids)
	n.ids = slices.Compact(n.ids)
	slices.SortStableFunc(n.leases, func(a, b int32) int { return strings.Compare(looks[a], looks[b]) })
	x.best = x.best[:0]
	x.permute(s, looks, 0)
	return x.best
}

func (x *encoder) permute(s *state, looks []string, at int) {
	n := &x.n
	if at == len(n.leases) {
		x.nameAll(s)
		x.buf = s.encode(x.buf[:0], n)
		if x.more != nil {
			x.buf = x.more(x.buf, n)
		}
		if len(x.best) == 0 || bytes.Compare(x.buf, x.best) < 0 {
			x.best = append(x.best[:0], x.buf...)
		}
		return
	}
	for i := at; i < len(n.leases) && looks[n.leases[i]] == looks[n.leases[at]]; i++ {
		n.leases[at], n.leases[i] = n.leases[i], n.leases[at]
		x.permute(s, looks, at+1)
		n.leases[at], n.leases[i] = n.leases[i], n.leases[at]
	}
}

func (x *encoder) nameAll(s *state) {
	n := &x.n
	n.slots = slices.Grow(n.slots[:0], len(s.leases))[:len(s.leases)]
	n.pages = slices.Grow(n.pages[:0], len(s.pages))[:len(s.pages)]
	n.order = n.order[:0]
	for i := range n.pages {
		n.pages[i] = none
	}
	name := func(p int32) {
		if n.pages[p] == none {
			n.pages[p] = int32(len(n.order))
			n.order = append(n.order, p)
		}
	}
	name(NullPage)
	for i, slot := range n.leases {
		n.slots[slot] = int32(i)
		for _, r := range s.leases[slot].table {
			name(r.page)
		}
	}
	for p := s.index.rest.head; p != none; p = s.index.entries[p].next {
		name(p)
	}
	for _, l := range []list{s.free, s.dirty} {
		for p := l.head; p != none; p = s.pages[p].next {
			name(p)
		}
	}
	for p := range s.pages {
		name(int32(p))
	}
}

// small is three leases, four pages of two positions.
func small(a Admission) Config { return Config{Pages: 5, PageSize: 2, Context: 8, Admission: a} }

func TestSearchReachesEverySituation(t *testing.T) {
	limit := 60_000
	switch {
	case *searchStates > 0:
		limit = *searchStates
	case testing.Short():
		limit = 10_000
	}
	common := []string{
		"abort", "end during a step", "second cause loses", "forget during use", "warm hit", "warm hit, then cancel",
		"evict while pinned refused", "evicted", "quarantined", "quarantine released", "twin merged",
		"refused admit", "refused begin", "refused end", "refused abort",
	}
	for _, c := range []struct {
		w    world
		want []string
	}{
		{world{small(Strict), [][]int32{{7, 7, 7}, {7, 7}}, []int{1, 1}, false, limit}, append(common, "twin merged")},
		{world{small(Strict), [][]int32{{7, 7, 7}}, []int{1}, true, limit}, []string{"hand-off committed", "hand-off refused", "refused write", "quarantined", "quarantine released"}},
		{world{small(Clamp), [][]int32{{7}}, []int{7}, false, limit}, []string{"requeued", "quarantine released", "evicted"}},
	} {
		s := search(t, c.w)
		if len(s.all) < limit {
			t.Logf("the space is closed: %d states", len(s.all))
		}
		for _, what := range c.want {
			if s.reached[what] == 0 && limit >= 60_000 {
				t.Errorf("%v, remote %v: never reached: %s", c.w.cfg.Admission, c.w.remote, what)
			}
		}
	}
}

// The search must be able to see: with a rule broken, it finds a history.
func TestSearchSeesABrokenRule(t *testing.T) {
	c := newCore(Config{Pages: 5, PageSize: 2, Context: 8}, 0)
	fx, err := c.apply(submit{session: 1, scope: Scope{Tenant: "a"}, prompt: 3, output: 1})
	if err != nil {
		t.Fatal(err)
	}
	prompt := []int32{7, 7, 7}
	if _, err := c.apply(admit{fx.id, prompt}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.apply(begin{[]feed{{fx.id, 0, prompt}}}); err != nil {
		t.Fatal(err)
	}
	whole := c.s.clone()
	for _, b := range []struct {
		rule string
		mar  func(*state)
	}{
		{"OWN", func(s *state) { s.pages[s.leases[0].table[0].page].owner = 2 }},
		{"GEN", func(s *state) { s.pages[s.leases[0].table[0].page].gen++ }},
		{"MARK", func(s *state) { s.leases[0].valid++; s.leases[0].tail = []int32{7} }},
		{"ADMIT", func(s *state) { s.reserved++ }},
		{"TERM", func(s *state) { s.leases[0].cause = CauseStop }},
		{"QUIET", func(s *state) { s.pages[s.leases[0].table[0].page].pins = 0 }},
		{"NULL", func(s *state) { s.pages[0].tag = 1 }},
		{"SUM", func(s *state) { s.scrubbing++ }},
		{"BIND", func(s *state) { s.pages[s.leases[0].table[0].page].tag++ }},
		{"DIRTY", func(s *state) { s.pages[s.free.head].filled = 1 }},
		{"SCRATCH", func(s *state) { s.leases[0].pending = append(s.leases[0].pending, 1, 2) }},
		{"SEAL", func(s *state) { s.leases[0].tail = []int32{7} }},
		{"ROLL", func(s *state) { s.leases[0].sealed = 1 }},
		{"KEY", func(s *state) {
			p := s.leases[0].table[0].page
			s.pages[p].state, s.pages[p].owner, s.pages[p].uses, s.pages[p].filled = pageSealed, none, 1, 2
			s.pages[p].tag = 99
			s.leases[0].sealed, s.leases[0].valid = 1, 2
			s.index.entries[p].scope = Scope{Tenant: "b"}
		}},
	} {
		c.s = whole.clone()
		b.mar(&c.s)
		var broken *breach
		if err := c.check(); !errors.As(err, &broken) || broken.rule != b.rule {
			t.Errorf("%s: %v", b.rule, err)
		}
	}
}
