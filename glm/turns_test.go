package glm_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// crowd runs generations beside a test, each in a session of its own.
type crowd struct {
	t     *testing.T
	p     *glm.KVPool
	wg    sync.WaitGroup
	count uint64
	mu    sync.Mutex
	heard map[uint64]heard // by session
}

// join begins a generation and returns, once it takes turns, its session.
func (c *crowd) join(tenant string, r glm.Request) uint64 {
	c.t.Helper()
	s, err := c.p.NewSession(glm.SessionConfig{Tenant: tenant})
	if err != nil {
		c.t.Fatal(err)
	}
	c.count++
	id, before := c.count, c.p.Scheduled()
	c.wg.Go(func() {
		defer s.Close()
		h := listen(s.Generate(c.t.Context(), r), len(r.Tokens), nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.heard == nil {
			c.heard = map[uint64]heard{}
		}
		c.heard[id] = h
		if h.flaw != nil || !h.ended() {
			c.t.Errorf("session %d: %s, %v, %v", id, h.finish.Reason, h.err, h.flaw)
		}
	})
	eventually(c.t, "its place in the schedule", func() bool { return c.p.Scheduled() > before })
	return id
}

// Many prompts of one tenant delay another's first token by one turn each: with
// n tenants a prompt of k shares is through after n*k steps, whatever the others
// have waiting.
func TestTurnsOfTenants(t *testing.T) {
	const share = 64 // rows for prompts while somebody decodes
	g := &gate{}
	m, gold := openGolden(t, "glm47flash", 1, g.watch())
	c := &crowd{t: t, p: newPool(t, m, glm.PoolConfig{Tokens: 16384})}
	g.close()
	decoder := c.join("decoder", endless(gold.VocabSize, 1, 90, 1))
	eventually(t, "a step", func() bool { return g.begun() == 1 })

	var mine []uint64 // eight prompts of three shares each, in order of arrival
	for i := range 8 {
		mine = append(mine, c.join("busy", endless(gold.VocabSize, 3*share, 1, uint64(i))))
	}
	type guest struct {
		session uint64
		shares  int
	}
	var guests []guest
	for i, shares := range []int{1, 3, 2} {
		guests = append(guests, guest{c.join(fmt.Sprint("guest ", i), endless(gold.VocabSize, shares*share, 1, uint64(100+i))), shares})
	}
	g.open()
	c.wg.Wait()

	// through is the step in which the last row of a prompt was fed.
	through := func(session uint64) int {
		last := -1
		for i, rows := range g.steps {
			if rows[session] > 0 {
				last = i + 1
			}
		}
		return last
	}
	for _, x := range guests {
		if at, most := through(x.session), x.shares*(1+len(guests)); at > most {
			t.Errorf("a guest's prompt of %d shares took %d steps, want at most %d", x.shares, at, most)
		}
	}
	if !slices.IsSortedFunc(mine, func(a, b uint64) int { return through(a) - through(b) }) {
		t.Error("prompts of one tenant were not fed in order of arrival")
	}
	for i, rows := range g.steps[:through(mine[7])] {
		prompts := 0
		for session, n := range rows {
			if session != decoder {
				prompts += n
			}
		}
		if rows[decoder] != 1 || prompts != share {
			t.Errorf("step %d: %d rows decode, %d are of prompts: %v", i, rows[decoder], prompts, rows)
		}
	}
}

// However many tenants keep arriving, one that waits is passed by those that were
// there at its last turn, each once, and by nobody else.
func TestTurnsAmongNewcomers(t *testing.T) {
	const share, arrivals, shares = 64, 24, 6
	g := &gate{}
	w := g.watch()
	record := w.Begin
	m, gold := openGolden(t, "glm47flash", 1, w)
	c := &crowd{t: t, p: newPool(t, m, glm.PoolConfig{Tokens: 32768})}
	coming := 0
	w.Begin = func(s *backend.Step, p backend.Pages) {
		record(s, p)
		if coming > 0 { // one more in every step
			coming--
			c.join(fmt.Sprint("newcomer ", coming), endless(gold.VocabSize, 4*share, 1, uint64(coming)))
		}
	}
	g.close()
	c.join("decoder", endless(gold.VocabSize, 1, 120, 1))
	eventually(t, "a step", func() bool { return g.begun() == 1 })
	patient := c.join("patient", endless(gold.VocabSize, shares*share, 1, 2))
	coming = arrivals
	g.open()
	c.wg.Wait()

	turns, last, there := 0, 0, 1
	for i, rows := range g.steps {
		if rows[patient] == 0 {
			continue
		}
		if turns++; i-last > there {
			t.Errorf("turn %d of the patient one came %d steps after the one before, when %d were there", turns, i-last, there)
		}
		last, there = i, 1
		for n := range min(i+1, arrivals) { // one came in every step, and some are through
			newcomer := patient + 1 + uint64(n)
			if slices.ContainsFunc(g.steps[i+1:], func(rows map[uint64]int) bool { return rows[newcomer] > 0 }) {
				there++
			}
		}
	}
	if turns != shares {
		t.Errorf("the patient one had %d turns, want %d", turns, shares)
	}
}

// More rows than a step samples take turns: with n of them, nobody waits longer
// than n/64 steps, rounded up, although others leave and arrive.
func TestTurnsOfRows(t *testing.T) {
	const outs, first, later = 64, 90, 30
	g := &gate{}
	w := g.watch()
	record := w.Begin
	m, gold := openGolden(t, "glm47flash", 1, w)
	c := &crowd{t: t, p: newPool(t, m, glm.PoolConfig{Tokens: 32768})}
	arrivals := 0
	w.Begin = func(s *backend.Step, p backend.Pages) {
		record(s, p)
		if n := len(s.Out); n > outs {
			t.Errorf("%d rows are sampled", n)
		}
		if arrivals > 0 {
			arrivals--
			c.join("", endless(gold.VocabSize, 1, 5, 1))
		}
	}
	g.close()
	outputs := map[uint64]int{}
	for i := range first { // of different lengths, so that they leave one by one
		n := 3 + i*7%17
		outputs[c.join("", endless(gold.VocabSize, 1, n, uint64(i)))] = n
	}
	arrivals = later
	g.open()
	c.wg.Wait()

	served, last := map[uint64]int{}, map[uint64]int{} // rows; step of the last one, at first when it came
	for n := range later {
		last[uint64(first+1+n)] = n
	}
	for i, rows := range g.steps {
		for session := range rows {
			if wait := i - last[session]; wait > (first+later+outs-1)/outs {
				t.Errorf("session %d waited %d steps for its row in step %d", session, wait, i)
			}
			last[session] = i
			served[session]++
		}
	}
	for session, n := range outputs {
		if served[session] != n && served[session] != n-1 { // its first step may have been the one at the gate
			t.Errorf("session %d had %d rows, want %d", session, served[session], n)
		}
	}
}
