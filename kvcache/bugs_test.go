package kvcache

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// These tests replay leaks of other engines, by their number in BUGS.md at the
// root of the module, where another test of this package does not already.

// rests demands that nothing is left of anybody, without any clock.
func rests(t *testing.T, what string, pools ...*Pool) {
	t.Helper()
	for i, p := range pools {
		p.settled()
		if s := p.Stats(); s.Free+s.Resting != s.Pages || s.Running+s.Waiting+s.Reserved != 0 {
			t.Errorf("%s: pool %d holds %+v", what, i, s)
		}
	}
}

// hooked is a store that tells when a page is about to be exported.
type hooked struct {
	*tagStore
	export func(page int)
}

func (h *hooked) Export(dst []byte, page int) []byte {
	if h.export != nil {
		h.export(page)
	}
	return h.tagStore.Export(dst, page)
}

// Bug 5: the source of a transfer goes away before, or while, it is pulled. Its
// pages stay until the pull ends; nothing is sent of one that was gone before;
// and what arrived for a request that has ended is not read.
func TestSourceGoesAwayWhileItIsPulled(t *testing.T) {
	prompt := tokens(1, 10)
	for name, when := range map[string]int{"before": -1, "at the first page": 0, "at the last page": 2} {
		t.Run(name, func(t *testing.T) {
			store := &hooked{tagStore: newTagStore(9, 4)}
			pre, err := New(Config{Pages: 9, PageSize: 4, Context: 32, Identity: Identity{Weights: "w", Tokenizer: "t"}}, store)
			if err != nil {
				t.Fatal(err)
			}
			defer pre.Close()
			dec, decStore := testPool(t, 8, nil)
			if err := Pair(pre, dec); err != nil {
				t.Fatal(err)
			}
			l, ticket := remote(t, dec, "acme", prompt)
			from := accepted(t, pre, store.tagStore, "acme", ticket, prompt)
			pulled := 0
			gone := func() {
				from.End(CauseCancelled, nil)
				pre.happen(forget{all: true})
			}
			store.export = func(int) {
				if pulled == when {
					gone()
					if s := pre.Stats(); s.Quarantined+s.Shared != 3 || s.Running != 0 {
						t.Errorf("while the peer pulls: %+v", s)
					}
				}
				pulled++
			}
			if when < 0 {
				gone()
				other := admitted(t, session(t, pre, "other"), tokens(500, 30), 2)
				prefill(t, pre, store.tagStore, other)
				defer other.End(CauseStop, nil)
			}
			m, err := from.Send(dec, 7)
			if when < 0 {
				if !errors.Is(err, ErrEnded) || pulled != 0 {
					t.Fatalf("%d pages were pulled: %v", pulled, err)
				}
			} else {
				// The rows were pinned, so what arrived is right.
				if err := errors.Join(err, l.Commit(m)); err != nil {
					t.Fatal(err)
				}
				decode(t, dec, decStore, l, 7)
				rests(t, "source", pre)
			}
			l.End(CauseCancelled, nil)
			l.Quiesced()
			rests(t, "receiver", dec)
		})
	}
}

// happen makes an event happen from outside.
func (p *Pool) happen(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(e)
}

// pagesOf lists the pages of a request.
func pagesOf(p *Pool, l *Lease) (pages []int) {
	inside(p, func(c *core) {
		for _, r := range c.lease(l.id).table {
			pages = append(pages, int(r.page))
		}
	})
	return pages
}

// Bug 6: a slot is used again, and what was meant for its last request arrives.
func TestManifestOfAReusedSlot(t *testing.T) {
	pre, dec, preStore, _ := pair(t, 16, 16, nil)
	prompt := tokens(1, 10)
	a, ticketA := remote(t, dec, "a", prompt)
	fromA := accepted(t, pre, preStore, "a", ticketA, prompt)
	m, err := fromA.Send(dec, 77)
	if err != nil {
		t.Fatal(err)
	}
	fromA.End(CauseStop, nil)
	a.End(CauseCancelled, nil)
	a.Quiesced()
	b, ticketB := remote(t, dec, "b", tokens(100, 10))
	if a.id.slot != b.id.slot {
		t.Fatalf("slots %d and %d: nothing was reused", a.id.slot, b.id.slot)
	}
	// Nothing has arrived for b: neither the old manifest nor none at all will do.
	if b.Valid() != 0 {
		t.Errorf("mark %d", b.Valid())
	}
	if err := dec.receive(ticketA, ticketB.pages[0], 4, make([]byte, 4*rowBytes)); !errors.Is(err, ErrStalePage) {
		t.Errorf("a write for the last request: %v", err)
	}
	if err := b.Commit(m); !errors.Is(err, ErrHandoff) {
		t.Errorf("the manifest of the last request: %v", err)
	}
	if s, _ := dec.Begin([]Entry{{b, 10, []int32{m.First()}}}); len(s.Refused()) != 1 {
		t.Error("it runs")
	}
	b.End(CauseStop, nil)
	b.Quiesced()
	rests(t, "in the end", pre, dec)
}

// Bug 7: a peer sends to the wrong receiver.
func TestManifestAtTheWrongReceiver(t *testing.T) {
	pre, dec, preStore, _ := pair(t, 16, 16, nil)
	other, _ := testPool(t, 16, nil)
	if err := Pair(pre, other); err != nil {
		t.Fatal(err)
	}
	prompt := tokens(1, 10)
	l, ticket := remote(t, dec, "acme", prompt)
	wrong, _ := remote(t, other, "acme", prompt)
	from := accepted(t, pre, preStore, "acme", ticket, prompt)
	if _, err := from.Send(other, 1); !errors.Is(err, ErrStalePage) {
		t.Errorf("sent to the wrong pool: %v", err)
	}
	m, err := from.Send(dec, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := wrong.Commit(m); !errors.Is(err, ErrHandoff) || wrong.Valid() != 0 {
		t.Errorf("committed by the wrong pool: %v", err)
	}
	if err := l.Commit(m); err != nil {
		t.Errorf("committed by the right one: %v", err)
	}
	for _, l := range []*Lease{l, wrong, from} {
		l.End(CauseStop, nil)
		l.Quiesced()
	}
	rests(t, "in the end", pre, dec, other)
}

// Bug 8: several prompts of one call share an id.
func TestEveryPromptHasItsOwnTicket(t *testing.T) {
	pre, dec, preStore, _ := pair(t, 32, 32, nil)
	prompt := tokens(1, 10)
	s := session(t, dec, "acme")
	var leases []*Lease
	var manifests []Manifest
	seen := map[Nonce]bool{}
	for range 4 {
		l, err := s.Admit(t.Context(), Request{Tokens: prompt, MaxTokens: 4, Remote: true})
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := l.Ticket()
		if err != nil || seen[ticket.nonce] {
			t.Fatal(err, ticket.nonce)
		}
		seen[ticket.nonce] = true
		if _, err := l.Ticket(); !errors.Is(err, ErrHandoff) {
			t.Errorf("a second ticket: %v", err)
		}
		from := accepted(t, pre, preStore, "acme", ticket, prompt)
		m, err := from.Send(dec, 1)
		if err != nil {
			t.Fatal(err)
		}
		from.End(CauseStop, nil)
		leases, manifests = append(leases, l), append(manifests, m)
	}
	if err := leases[0].Commit(manifests[1]); !errors.Is(err, ErrHandoff) {
		t.Errorf("a sibling's manifest: %v", err)
	}
	for i, l := range leases[1:] {
		if err := l.Commit(manifests[i+1]); err != nil {
			t.Errorf("child %d: %v", i+1, err)
		}
	}
	for _, l := range leases {
		l.End(CauseStop, nil)
		l.Quiesced()
	}
	rests(t, "in the end", pre, dec)
}

// Bug 10: wherever a hand-off is broken off, on either side, both pools are at
// rest at once, and the cause is the one that was given.
func TestAbortAtEveryStep(t *testing.T) {
	const issued, acceptedStep, computed, sent, committed, steps = 0, 1, 2, 3, 4, 5
	prompt := tokens(1, 10)
	for at := range steps {
		for _, side := range []string{"issuer", "computer", "both sessions"} {
			t.Run(fmt.Sprintf("step %d, %s", at, side), func(t *testing.T) {
				pre, dec, preStore, _ := pair(t, 16, 16, nil)
				l, ticket := remote(t, dec, "acme", prompt)
				s := session(t, pre, "acme")
				var from *Lease
				var m Manifest
				var err error
				if at >= acceptedStep {
					if from, err = s.Accept(t.Context(), ticket, prompt); err != nil {
						t.Fatal(err)
					}
				}
				if at >= computed {
					prefill(t, pre, preStore, from)
				}
				if at >= sent {
					if m, err = from.Send(dec, 1); err != nil {
						t.Fatal(err)
					}
				}
				if at >= committed {
					if err := l.Commit(m); err != nil {
						t.Fatal(err)
					}
				}
				// The one who is not asked hears of it by what he tries next.
				switch side {
				case "issuer":
					l.End(CauseCancelled, nil)
					if from != nil && at < sent {
						if at == computed {
							if _, err := from.Send(dec, 1); !errors.Is(err, ErrStalePage) {
								t.Errorf("sent to one who has ended: %v", err)
							}
						}
						from.End(CauseCancelled, nil)
					}
				case "computer":
					if from != nil {
						from.End(CauseFailed, errors.New("mine"))
						if at < sent {
							if _, err := from.Send(dec, 1); err == nil {
								t.Error("sent by one who has ended")
							}
						}
					}
					l.End(CauseFailed, nil)
				default:
					s.Close()
					l.session.Close()
				}
				if from != nil {
					from.End(CauseStop, nil)
				}
				l.Quiesced() // the peer is quiet: it says so or never began
				want := map[string]Cause{"issuer": CauseCancelled, "computer": CauseFailed, "both sessions": CauseClosed}[side]
				if cause, _ := l.End(CauseStop, nil); cause != want {
					t.Errorf("cause %v, want %v", cause, want)
				}
				rests(t, "both", pre, dec)
			})
		}
	}
}

// Bug 15: pages that are being copied are taken from nobody: neither requeued,
// nor evicted, nor scrubbed, until the copy has been read.
func TestCopiedPagesAreTakenFromNobody(t *testing.T) {
	p, store := testPool(t, 6, func(c *Config) { c.Admission = Clamp })
	young := func() *Lease { return admitted(t, session(t, p, "young"), tokens(100, 7), 8) }
	old := admitted(t, session(t, p, "old"), tokens(1, 7), 16)
	prefill(t, p, store, old)
	y := young()
	prefill(t, p, store, y)
	p.happen(copying{y.id})
	page := pagesOf(p, y)[0]
	before := store.Export(nil, page)
	// The old one grows as far as it can, beyond the pages that are left.
	grown, stuck := 0, error(nil)
	for range 16 {
		s, err := p.Begin([]Entry{{old, old.Valid(), []int32{int32(old.Valid())}}})
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Refused(); len(r) > 0 {
			stuck = r[0].Err
			break
		}
		if err := store.run(s.Arrays(), func(int, int, row) error { return nil }); err != nil {
			t.Fatal(err)
		}
		s.Complete(results(s))
		grown++
	}
	if !errors.Is(stuck, ErrRequeued) { // it gives way itself
		t.Errorf("after %d tokens: %v", grown, stuck)
	}
	if cause, err := y.Cause(); cause != CauseNone || err != nil || y.Valid() != 7 {
		t.Errorf("the copied one: %v, %v, mark %d", cause, err, y.Valid())
	}
	y.End(CauseCancelled, nil)
	if s := p.Stats(); s.Quarantined == 0 {
		t.Errorf("ended in mid-copy: %+v", s)
	}
	if !slices.Equal(before, store.Export(nil, page)) {
		t.Error("the bytes changed while they were copied")
	}
	p.happen(copied{y.id})
	old.End(CauseStop, nil)
	rests(t, "in the end", p)
}

// Bug 17: a prompt in chunks is given up after each; what stays findable is
// full, sealed and written, and nothing of it is free. The invariants are
// checked after every event.
func TestAbortAfterEachChunk(t *testing.T) {
	prompt := tokens(1, 19)
	for chunk := 1; chunk <= 7; chunk += 2 {
		for stop := 0; stop <= len(prompt); stop += chunk {
			for _, midway := range []bool{false, true} {
				p, store := testPool(t, 8, nil)
				s := session(t, p, "a")
				l := admitted(t, s, prompt, 1)
				at := 0
				for ; at < stop; at += min(chunk, stop-at) {
					step(t, p, store, Entry{l, at, prompt[at : at+min(chunk, stop-at)]})
				}
				if midway && at < len(prompt) {
					st, err := p.Begin([]Entry{{l, at, prompt[at:]}})
					if err != nil {
						t.Fatal(err)
					}
					l.End(CauseCancelled, nil)
					if errs := st.Complete(results(st)); !errors.Is(errs[0], ErrEnded) {
						t.Errorf("chunk %d, stop %d: %v", chunk, stop, errs)
					}
				}
				l.End(CauseCancelled, nil)
				again := admitted(t, s, prompt, 1)
				if want := min(at, len(prompt)-1) / 4 * 4; again.Reused() != want {
					t.Errorf("chunk %d, stop %d, midway %v: reused %d, want %d", chunk, stop, midway, again.Reused(), want)
				}
				prefill(t, p, store, again)
				again.End(CauseStop, nil)
				rests(t, "in the end", p)
			}
		}
	}
}

// Bug 29: a tenant may have any name. Equal names share; different names, and
// none, do not.
func FuzzTenant(f *testing.F) {
	for _, s := range []string{"", "acme", "\x00", "\xff\xfe", "tenant", "session", "\x00\x00\x00\x00\x00\x00\x00\x01", "a\nb", "💧"} {
		f.Add(s, s)
		f.Add(s, "acme")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		p, store := testPool(t, 8, nil)
		prompt := tokens(1, 9)
		l := admitted(t, session(t, p, a), prompt, 1)
		prefill(t, p, store, l)
		l.End(CauseStop, nil)
		l = admitted(t, session(t, p, b), prompt, 1)
		if want := 8; (l.Reused() == want) != (a == b && a != "") || l.Reused() != 0 && l.Reused() != want {
			t.Errorf("%q after %q: reused %d", b, a, l.Reused())
		}
		l.End(CauseStop, nil)
		for _, name := range []string{a, b} {
			if err := p.Forget(t.Context(), name); (err == nil) != (name != "") {
				t.Errorf("forget %q: %v", name, err)
			}
		}
	})
}

// Bug 33: the null page is nobody's: never leased, written or found.
func TestNullPageIsNobodys(t *testing.T) {
	_, dec, _, decStore := pair(t, 16, 4, nil)
	l, ticket := remote(t, dec, "a", tokens(1, 8))
	if err := dec.receive(ticket, ref{NullPage, 0}, 4, make([]byte, 4*rowBytes)); !errors.Is(err, ErrStalePage) {
		t.Errorf("written: %v", err)
	}
	l.End(CauseCancelled, nil)
	l.Quiesced()
	// Everything there is, is leased and sealed.
	all := admitted(t, session(t, dec, "b"), tokens(1, 15), 1)
	prefill(t, dec, decStore, all)
	decode(t, dec, decStore, all, 99)
	if slices.Contains(pagesOf(dec, all), NullPage) {
		t.Error("leased")
	}
	inside(dec, func(c *core) {
		if n := c.s.pages[NullPage]; n.state != pageNull || n.gen != 0 || n.tag != 0 || c.s.index.entries[NullPage].indexed {
			t.Errorf("%+v", n)
		}
	})
	all.End(CauseStop, nil)
	if got := decStore.pages[NullPage].rows[0]; got != poison {
		t.Errorf("its rows are %+v", got)
	}
}

// Bug 40: prefixes of every length up to three pages and a row. What is shared
// is full, and stays to the byte what it was, whoever continues it.
func TestPrefixesOfEveryLength(t *testing.T) {
	prompt := tokens(1, 13)
	for n := 1; n <= len(prompt); n++ {
		p, store := testPool(t, 16, nil)
		first := admitted(t, session(t, p, "a"), prompt, 1)
		prefill(t, p, store, first)
		pages := pagesOf(p, first)
		first.End(CauseStop, nil)
		var before [][]byte
		for _, page := range pages[:3] {
			before = append(before, store.Export(nil, page))
		}
		for _, more := range [][]int32{{500}, {600, 601, 602, 603, 604}} {
			l := admitted(t, session(t, p, "a"), append(slices.Clone(prompt[:n]), more...), 4)
			if want := n / 4 * 4; l.Reused() != want {
				t.Errorf("%d tokens shared: %d reused, want %d", n, l.Reused(), want)
			}
			prefill(t, p, store, l)
			decode(t, p, store, l, 700, 701, 702)
			l.End(CauseStop, nil)
		}
		for i, page := range pages[:3] {
			if !slices.Equal(before[i], store.Export(nil, page)) {
				t.Errorf("%d tokens shared: page %d changed", n, i)
			}
		}
		rests(t, "in the end", p)
	}
}
