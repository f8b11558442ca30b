//go:build cofferdam_unsafe

package kvcache

import (
	"errors"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/kvcache/internal/guard"
)

// These tests remove guards. They show that each single one of them stops the
// leak, and, with all removed, that the tests could see it.

// without switches guards off for one subtest.
func without(t *testing.T, off map[string]bool) {
	t.Helper()
	checkEveryEvent = false
	for name, v := range map[string]*bool{
		"ADMIT": &guard.Admit, "TERM": &guard.Term, "HAND": &guard.Hand, "MARK": &guard.Mark, "SCRUB": &guard.Scrub,
		"QUIET": &guard.Quiet, "GEN": &guard.Gen, "SUM": &guard.Sum,
	} {
		*v = !off[name]
	}
	t.Cleanup(func() {
		checkEveryEvent = true
		guard.Admit, guard.Term, guard.Hand, guard.Mark = true, true, true, true
		guard.Scrub, guard.Quiet, guard.Gen, guard.Sum = true, true, true, true
	})
}

// matrix runs a scenario under every combination of guards. The scenario
// reports whether a foreign row was read. alone says by which error each guard
// stops the leak when it is the only one; nil: the rows that were read were
// nobody's.
func matrix(t *testing.T, guards []string, alone map[string]error, scenario func(t *testing.T) (leaked bool, stopped error)) {
	for mask := range 1 << len(guards) {
		off := map[string]bool{}
		label := "on:"
		for i, g := range guards {
			if off[g] = mask>>i&1 == 0; !off[g] {
				label += " " + g
			}
		}
		t.Run(label, func(t *testing.T) {
			without(t, off)
			leaked, stopped := scenario(t)
			if want := mask == 0; leaked != want {
				t.Errorf("leaked %v, want %v; stopped by: %v", leaked, want, stopped)
			}
			for i, g := range guards {
				if mask == 1<<i && !errors.Is(stopped, alone[g]) {
					t.Errorf("stopped by: %v, want %v", stopped, alone[g])
				}
			}
		})
	}
}

func TestFoundingIncidentMatrix(t *testing.T) {
	matrix(t, []string{"ADMIT", "TERM", "HAND", "MARK", "SCRUB"}, map[string]error{
		"ADMIT": ErrContextExceedsPool, // before anything is reserved
		"TERM":  ErrContextExceedsPool, // on the other side, and it stays
		"HAND":  ErrHandoff,
		"MARK":  ErrUnwritten,
		"SCRUB": nil,
	}, incident)
}

// incident sends a prompt that fits the decode pool and not the prefill pool.
func incident(t *testing.T) (leaked bool, stopped error) {
	const length, first = 100, 50_000 // tokens of the victim; the donor's are smaller
	cfg := func(c *Config) { c.Context, c.AllowSmallerPool = 256, true }
	pre, dec, preStore, decStore := pair(t, 17, 40, cfg)
	markers := session(t, dec, "donor")
	for i := range 3 {
		l := admitted(t, markers, tokens(1000*i, 63), 1)
		prefill(t, dec, decStore, l)
		l.End(CauseStop, nil)
	}
	prompt := tokens(first, length)
	victim, err := session(t, dec, "victim").Admit(t.Context(), Request{Tokens: prompt, MaxTokens: 4, Remote: true})
	if err != nil {
		return false, err
	}
	defer func() {
		victim.End(CauseLength, nil)
		victim.Quiesced()
	}()
	ticket, err := victim.Ticket()
	if err != nil {
		return false, err
	}
	m, err := prefillSide(t, pre, preStore, dec, ticket, prompt)
	if err != nil {
		return false, err
	}
	if err := victim.Commit(m); err != nil {
		return false, err
	}
	// The decode engine believes in the prompt's length.
	s, err := dec.Begin([]Entry{{victim, length, []int32{first}}})
	if err != nil {
		return false, err
	}
	if r := s.Refused(); len(r) > 0 {
		return false, r[0].Err
	}
	defer s.Abort()
	err = decStore.run(s.Arrays(), func(q, pos int, r row) error {
		if r != poison && r.token < first {
			leaked = true
		}
		return nil
	})
	return leaked, err
}

// prefillSide is an engine as the incident had it: a request refused for its
// length goes on as a prompt of one token, unless the refusal is terminal.
func prefillSide(t *testing.T, pre *Pool, store *tagStore, dec *Pool, ticket Ticket, prompt []int32) (Manifest, error) {
	s := session(t, pre, "victim")
	_, err := s.Accept(t.Context(), ticket, prompt)
	if err == nil {
		return Manifest{}, errors.New("the prefill pool took a prompt above its limit")
	}
	if guard.Term {
		return Manifest{}, err
	}
	pre.mu.Lock()
	fx, err := pre.apply(submit{session: s.id, scope: s.scope, prompt: len(prompt), output: 1})
	if err != nil || fx.refusal == nil {
		t.Fatal(err, fx.refusal)
	}
	c := pre.core.lease(fx.id)
	c.prompt, c.limit = 1, 2
	l := &Lease{pool: pre, session: s, id: fx.id, known: prompt[:1], prompt: 1, ticket: ticket}
	pre.leases[fx.id.request] = l
	if _, err := pre.apply(admit{fx.id, prompt[:1]}); err != nil {
		t.Fatal(err)
	}
	pre.mu.Unlock()
	prefill(t, pre, store, l)
	if err := dec.receive(ticket, ticket.pages[0], 1, firstPage(pre, store, l)); err != nil {
		t.Fatal(err)
	}
	if cause, err := l.End(CauseLength, nil); cause != CauseLength || err != nil {
		t.Fatal("success did not overwrite the refusal", cause, err)
	}
	short := ticket
	short.tokens, short.pages = 1, ticket.pages[:1]
	return Manifest{ticket: short, first: 7}, nil
}

func TestLateWriteMatrix(t *testing.T) {
	matrix(t, []string{"QUIET", "GEN", "SUM"}, map[string]error{
		"QUIET": errElsewhere,
		"GEN":   ErrStalePage,
		"SUM":   ErrHandoff,
	}, lateWrite)
}

// errElsewhere: the late write went to a page that had not gone to anybody else.
var errElsewhere = errors.New("the page is still quarantined")

// lateWrite lets a cancelled hand-off's last write arrive when its page, if it
// was freed at once, is another request's.
func lateWrite(t *testing.T) (leaked bool, stopped error) {
	pre, dec, preStore, decStore := pair(t, 12, 12, func(c *Config) { c.Checksums, c.Context = true, 24 })
	promptA, promptB := tokens(100, 8), tokens(200, 11)
	first, second := session(t, dec, ""), session(t, dec, "")
	fill := admitted(t, first, tokens(900, 15), 1) // pages 1 to 4
	prefill(t, dec, decStore, fill)
	a, ticketA := remote(t, dec, "a", promptA)
	fromA := accepted(t, pre, preStore, "a", ticketA, promptA)
	page := firstPage(pre, preStore, fromA)
	a.End(CauseCancelled, nil)
	defer a.Quiesced()
	defer fromA.End(CauseCancelled, nil)
	// Everything else is used up, then the first pages are freed: after A's, if
	// A's are free. B gets the three that were freed first.
	rest := admitted(t, second, tokens(900, 23), 1)
	prefill(t, dec, decStore, rest)
	defer rest.End(CauseStop, nil)
	fill.End(CauseStop, nil)
	first.Close()
	b, ticketB := remote(t, dec, "b", promptB)
	fromB := accepted(t, pre, preStore, "b", ticketB, promptB)
	m, err := fromB.Send(dec, 7)
	fromB.End(CauseStop, nil)
	if err != nil {
		return false, err
	}
	defer func() {
		b.End(CauseStop, nil)
		b.Quiesced()
	}()
	late := dec.receive(ticketA, ticketA.pages[0], 4, page)
	if !slices.ContainsFunc(ticketB.pages, func(r ref) bool { return r.page == ticketA.pages[0].page }) {
		late = errors.Join(late, errElsewhere)
	}
	if err := b.Commit(m); err != nil {
		return false, err
	}
	s, err := dec.Begin([]Entry{{b, len(promptB), []int32{7}}})
	if err != nil {
		return false, err
	}
	if r := s.Refused(); len(r) > 0 {
		return false, r[0].Err
	}
	defer s.Abort()
	err = decStore.run(s.Arrays(), func(q, pos int, r row) error {
		if pos < len(promptB) && r.token != uint64(promptB[pos]) {
			leaked = true
		}
		return nil
	})
	return leaked, errors.Join(err, late)
}
