package glm

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// A parrot answers every step at once, with an id of the step itself: what
// computing allocates is tested where it is done.
type parrot struct {
	backend.Backend
	result backend.Result
}

func (p *parrot) Start(_ backend.Program, s *backend.Step, _ backend.Pages) error {
	r := &p.result
	*r = backend.Result{
		Epoch: s.Epoch, Session: append(r.Session[:0], s.Session...), Tag: append(r.Tag[:0], s.Tag...),
		Health: r.Health[:0], ID: r.ID[:0], LogProb: r.LogProb[:0], Top: r.Top[:0],
	}
	for range s.IDs {
		r.Health = append(r.Health, 0)
	}
	for _, row := range s.Out {
		r.ID, r.LogProb, r.Top = append(r.ID, s.IDs[row]), append(r.LogProb, -1), append(r.Top, nil)
	}
	return nil
}

func (p *parrot) Wait() (*backend.Result, error) { return &p.result, nil }

// crew admits n generations to a pool whose loop has stopped, so that a test can
// take the turns itself. They push no events.
func crew(t *testing.T, n int) *scheduler {
	t.Helper()
	files := fixtureFiles()
	delete(files, "tokenizer.json")
	m := openFiles(t, files, Config{Threads: 2})
	p, err := m.NewKVPool(PoolConfig{Tokens: 960 * n, Context: 960})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m.device = &parrot{Backend: m.device}
	p.sched.stop()
	for i := range n {
		tenant := ""
		if i%2 == 1 {
			tenant = "shared"
		}
		g, err := openSession(t, p, tenant).admit(t.Context(), &Request{Tokens: ids(20 + i), MaxTokens: 900})
		if err != nil {
			t.Fatal(err)
		}
		g.report, g.stops = false, nil
	}
	return p.sched
}

// allocations returns what one call of turn allocates, and fails unless each moved
// everybody by a position.
func allocations(t *testing.T, s *scheduler, turn func()) float64 {
	t.Helper()
	for range 40 { // until everything has its size
		turn()
	}
	const runs = 100
	before := s.running[0].lease.Valid()
	n := testing.AllocsPerRun(runs, turn)
	if now := s.running[0].lease.Valid(); now != before+runs+1 {
		t.Fatalf("%d positions in %d turns", now-before, runs+1)
	}
	return n
}

// A turn of the scheduler allocates nothing, its step's snapshot and the guards of
// its pages included.
func TestTurnAllocatesNothing(t *testing.T) {
	s := crew(t, 3)
	if n := allocations(t, s, func() { s.step(s.plan(s.running)) }); n != 0 {
		t.Errorf("%g allocations a turn", n)
	}
}

// Choosing among waiting prompts allocates nothing either.
func TestPlanAllocatesNothing(t *testing.T) {
	s := crew(t, 7)
	if turns := s.plan(s.running); len(turns) != 7 || len(turns[0].tokens) < 2 {
		t.Fatalf("%d turns; want the prompts of all", len(turns))
	}
	if n := testing.AllocsPerRun(100, func() { s.plan(s.running) }); n != 0 {
		t.Errorf("%g allocations a plan", n)
	}
}
