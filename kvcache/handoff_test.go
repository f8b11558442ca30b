package kvcache

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// pair makes a prefill and a decode pool that know each other.
func pair(t *testing.T, prefillPages, decodePages int, change func(*Config)) (pre, dec *Pool, preStore, decStore *tagStore) {
	t.Helper()
	pre, preStore = testPool(t, prefillPages, change)
	dec, decStore = testPool(t, decodePages, change)
	if err := Pair(pre, dec); err != nil {
		t.Fatal(err)
	}
	return
}

// remote admits a request at the decode side and issues its ticket.
func remote(t *testing.T, dec *Pool, tenant string, prompt []int32) (*Lease, Ticket) {
	t.Helper()
	l, err := session(t, dec, tenant).Admit(t.Context(), Request{Tokens: prompt, MaxTokens: 4, Remote: true})
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := l.Ticket()
	if err != nil {
		t.Fatal(err)
	}
	return l, ticket
}

func accepted(t *testing.T, pre *Pool, store *tagStore, tenant string, ticket Ticket, prompt []int32) *Lease {
	t.Helper()
	l, err := session(t, pre, tenant).Accept(t.Context(), ticket, prompt)
	if err != nil {
		t.Fatal(err)
	}
	prefill(t, pre, store, l)
	return l
}

// firstPage is what a writer has read of a request and not yet written.
func firstPage(p *Pool, store *tagStore, l *Lease) (data []byte) {
	inside(p, func(c *core) { data = store.Export(nil, int(c.lease(l.id).table[0].page)) })
	return data
}

func TestHandOff(t *testing.T) {
	for _, sums := range []bool{false, true} {
		for _, tenant := range []string{"acme", ""} {
			t.Run(fmt.Sprintf("sums %v tenant %q", sums, tenant), func(t *testing.T) {
				pre, dec, preStore, decStore := pair(t, 16, 16, func(c *Config) { c.Checksums = sums })
				prompt := tokens(1, 10)
				l, ticket := remote(t, dec, tenant, prompt)
				if _, err := dec.Begin([]Entry{{l, 0, prompt}}); err != nil {
					t.Fatal(err)
				}
				from := accepted(t, pre, preStore, tenant, ticket, prompt)
				m, err := from.Send(dec, 77)
				if err != nil {
					t.Fatal(err)
				}
				from.End(CauseStop, nil)
				if err := l.Commit(m); err != nil {
					t.Fatal(err)
				}
				if l.Valid() != 10 || m.First() != 77 {
					t.Fatalf("mark %d, first %d", l.Valid(), m.First())
				}
				decode(t, dec, decStore, l, m.First(), 78)
				l.End(CauseStop, nil)
				if tenant != "" { // the pages that came by hand-off are shared like any others
					l := admitted(t, session(t, dec, tenant), append(append(tokens(1, 10), 77, 78), 79), 1)
					if l.Reused() != 12 {
						t.Errorf("reused %d", l.Reused())
					}
					l.End(CauseStop, nil)
				}
			})
		}
	}
}

// A manifest that differs from its ticket in any one field is refused, the
// request fails, and not one row becomes readable.
func TestManifestMustEqualTicket(t *testing.T) {
	prompt := tokens(1, 10)
	for name, spoil := range map[string]func(m *Manifest){
		"request":    func(m *Manifest) { m.ticket.lease.request++ },
		"nonce":      func(m *Manifest) { m.ticket.nonce[0]++ },
		"epoch":      func(m *Manifest) { m.ticket.epoch++ },
		"identity":   func(m *Manifest) { m.ticket.identity[3]++ },
		"scope":      func(m *Manifest) { m.ticket.scope[3]++ },
		"privacy":    func(m *Manifest) { m.ticket.private = !m.ticket.private },
		"tokens":     func(m *Manifest) { m.ticket.tokens-- },
		"prompt":     func(m *Manifest) { m.ticket.prompt[31]++ },
		"page":       func(m *Manifest) { m.ticket.pages[0].page++ },
		"generation": func(m *Manifest) { m.ticket.pages[2].gen++ },
		"fewer":      func(m *Manifest) { m.ticket.pages = m.ticket.pages[:1] },
		"checksum":   func(m *Manifest) { m.sums[1]++ },
	} {
		t.Run(name, func(t *testing.T) {
			pre, dec, preStore, _ := pair(t, 16, 16, func(c *Config) { c.Checksums = true })
			l, ticket := remote(t, dec, "acme", prompt)
			from := accepted(t, pre, preStore, "acme", ticket, prompt)
			m, err := from.Send(dec, 77)
			if err != nil {
				t.Fatal(err)
			}
			from.End(CauseStop, nil)
			m.ticket.pages = append([]ref(nil), m.ticket.pages...)
			spoil(&m)
			err = l.Commit(m)
			var e *IntegrityError
			if !errors.As(err, &e) || !errors.Is(err, ErrHandoff) {
				t.Fatal(err)
			}
			s, _ := dec.Begin([]Entry{{l, 10, []int32{77}}})
			if len(s.Refused()) != 1 || !errors.Is(s.Refused()[0].Err, ErrHandoff) {
				t.Fatalf("refused %+v", s.Refused())
			}
			if st := dec.Stats(); st.Quarantined != 3 {
				t.Fatalf("before the peer is quiet: %+v", st)
			}
			if c, err := l.End(CauseLength, nil); c != CauseFailed || !errors.Is(err, ErrHandoff) {
				t.Fatal(c, err)
			}
			l.Quiesced()
			l.Quiesced()
			if st := dec.Stats(); st.Quarantined != 0 || st.Running != 0 {
				t.Fatalf("after: %+v", st)
			}
		})
	}
}

// Rows that did not arrive are not readable, whatever the manifest says.
func TestCommitCountsRowsThatArrived(t *testing.T) {
	pre, dec, preStore, _ := pair(t, 16, 16, nil)
	prompt := tokens(1, 10)
	l, ticket := remote(t, dec, "acme", prompt)
	from := accepted(t, pre, preStore, "acme", ticket, prompt)
	page := firstPage(pre, preStore, from)
	if err := dec.receive(ticket, ticket.pages[0], 4, page); err != nil {
		t.Fatal(err)
	}
	forged := ticket
	forged.nonce[0]++
	if err := dec.receive(forged, ticket.pages[1], 4, page); !errors.Is(err, ErrStalePage) {
		t.Errorf("a write under another nonce: %v", err)
	}
	dec.quiesce(forged)
	inside(dec, func(c *core) {
		if c.lease(l.id).pinned[byWriter] != 3 {
			t.Error("another ticket's writer let go of the pages")
		}
	})
	err := l.Commit(Manifest{ticket: ticket})
	if !errors.Is(err, ErrHandoff) || !strings.Contains(err.Error(), "10 rows arrived, have 4") {
		t.Fatal(err)
	}
	from.End(CauseCancelled, nil)
	l.End(CauseCancelled, nil)
	l.Quiesced()
}

// A writer that comes after its pages have gone to somebody else is refused,
// and until it is known to be quiet they go to nobody.
func TestLateWriteIsRefused(t *testing.T) {
	pre, dec, preStore, decStore := pair(t, 4, 4, nil)
	prompt := tokens(1, 8)
	victimOf, ticket := remote(t, dec, "a", prompt)
	from := accepted(t, pre, preStore, "a", ticket, prompt)
	victimOf.End(CauseCancelled, nil)
	if st := dec.Stats(); st.Quarantined != 2 {
		t.Fatalf("%+v", st)
	}
	page := firstPage(pre, preStore, from)
	if err := dec.receive(ticket, ticket.pages[0], 4, page); !errors.Is(err, ErrStalePage) {
		t.Fatalf("a write after the end: %v", err)
	}
	victimOf.Quiesced()
	// Somebody else takes every page.
	b := admitted(t, session(t, dec, "b"), tokens(50, 14), 2)
	prefill(t, dec, decStore, b)
	for _, r := range ticket.pages {
		if err := dec.receive(ticket, r, 4, page); !errors.Is(err, ErrStalePage) {
			t.Fatalf("a late write: %v", err)
		}
	}
	if _, err := from.Send(dec, 1); !errors.Is(err, ErrStalePage) {
		t.Fatal(err)
	}
	decode(t, dec, decStore, b, 90)
	b.End(CauseStop, nil)
	from.End(CauseStop, nil)
}

func TestAcceptRefuses(t *testing.T) {
	pre, dec, _, _ := pair(t, 16, 16, nil)
	prompt := tokens(1, 10)
	l, ticket := remote(t, dec, "acme", prompt)
	other, _ := testPool(t, 16, nil)
	spoiled := func(f func(*Ticket)) Ticket { t := ticket; f(&t); return t }
	for _, c := range []struct {
		name   string
		to     *Session
		ticket Ticket
		tokens []int32
		want   error
	}{
		{"never paired", session(t, other, "acme"), ticket, prompt, ErrPeerMismatch},
		{"another format", session(t, pre, "acme"), spoiled(func(t *Ticket) { t.identity[0]++ }), prompt, ErrPeerMismatch},
		{"another tenant", session(t, pre, "emca"), ticket, prompt, ErrHandoff},
		{"no tenant", session(t, pre, ""), ticket, prompt, ErrHandoff},
		{"a shorter prompt", session(t, pre, "acme"), ticket, prompt[:1], ErrHandoff},
		{"another prompt", session(t, pre, "acme"), ticket, tokens(2, 10), ErrHandoff},
	} {
		if _, err := c.to.Accept(t.Context(), c.ticket, c.tokens); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	l.End(CauseFailed, ErrHandoff)
	l.Quiesced()
}

func TestPairChecksIdentity(t *testing.T) {
	a, _ := testPool(t, 4, nil)
	for name, change := range map[string]func(*Config){
		"weights":   func(c *Config) { c.Identity.Weights = "other" },
		"format":    func(c *Config) { c.Identity.Format = "bf16" },
		"page size": func(c *Config) { c.PageSize, c.Context = 8, 16 },
		"checksums": func(c *Config) { c.Checksums = true },
	} {
		b, _ := testPool(t, 4, change)
		if err := Pair(a, b); !errors.Is(err, ErrPeerMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Pair(a, a); !errors.Is(err, ErrPeerMismatch) {
		t.Errorf("itself: %v", err)
	}
}

// The founding incident, scaled: a prompt between the two pools' limits. Both
// sides serve the smaller limit, so it is refused before any work.
func TestFoundingIncident(t *testing.T) {
	pre, dec, preStore, decStore := pair(t, 17, 40, func(c *Config) { c.Context, c.AllowSmallerPool = 256, true })
	for _, p := range []*Pool{pre, dec} {
		if lim := p.Limits(); lim.Context != 68 {
			t.Fatalf("limits %+v", lim)
		}
	}
	if lim := dec.Limits(); lim.Binding != LimitPeer || lim.Pool != 160 {
		t.Fatalf("decode limits %+v", lim)
	}
	// Soak the decode pool with another tenant's rows.
	s := session(t, dec, "donor")
	for i := range 3 {
		l := admitted(t, s, tokens(1000*(i+1), 60), 4) // tokens that the victim does not say
		prefill(t, dec, decStore, l)
		l.End(CauseStop, nil)
	}
	for _, n := range []int{66, 67, 68, 69, 100, 160, 255} {
		l, err := session(t, dec, "victim").Admit(t.Context(), Request{Tokens: tokens(0, n), MaxTokens: 1, Remote: true})
		if n < 68 {
			if err != nil {
				t.Fatalf("%d: %v", n, err)
			}
			ticket, err := l.Ticket()
			if err != nil {
				t.Fatal(err)
			}
			from := accepted(t, pre, preStore, "victim", ticket, l.known)
			m, err := from.Send(dec, 7)
			from.End(CauseStop, nil)
			if err := errors.Join(err, l.Commit(m)); err != nil {
				t.Fatal(err)
			}
			s, err := dec.Begin([]Entry{{l, n, []int32{7}}})
			if err != nil || len(s.Refused()) > 0 {
				t.Fatal(err, s.Refused())
			}
			read := 0
			err = decStore.run(s.Arrays(), func(_, pos int, r row) error {
				if read++; r.pos != uint64(pos) || pos < n && r.token != uint64(pos) {
					return fmt.Errorf("a row of token %d", r.token)
				}
				return nil
			})
			if out := s.Complete(results(s)); err != nil || read != n+1 || out[0] != nil {
				t.Fatalf("%d: read %d rows: %v, %v", n, read, err, out)
			}
			l.End(CauseLength, nil)
			continue
		}
		var e *ContextError
		if !errors.As(err, &e) || e.Max != 68 || e.Prompt != n || e.Limit != LimitPeer || !errors.Is(err, ErrContextExceedsPool) {
			t.Fatalf("%d: %v", n, err)
		}
	}
}

func TestTrueSizes(t *testing.T) {
	const page, advertised = 64, 1_048_576
	for _, c := range []struct {
		pool, limit int
		binding     Limit
	}{{681_280, 681_280, LimitPool}, {2_040_000, advertised, LimitModel}} {
		lim := limitsOf(advertised, c.pool/page+1, page, 0, 0)
		if lim.Context != c.limit || lim.Binding != c.binding {
			t.Errorf("pool %d: %+v", c.pool, lim)
		}
		for _, n := range []int{681_279, 681_280, 681_281, advertised} {
			err := lim.check(n-1, 1, Strict)
			if (err == nil) != (n <= c.limit) {
				t.Errorf("pool %d, %d tokens: %v", c.pool, n, err)
			}
		}
	}
	if _, err := New(Config{Pages: 681_280/page + 1, PageSize: page, Context: advertised}, nil); !errors.Is(err, ErrContextExceedsPool) {
		t.Error(err)
	}
}

// A transfer that fails lets go of the issuer's pages by itself.
func TestFailedSendQuiesces(t *testing.T) {
	pre, dec, preStore, _ := pair(t, 16, 16, nil)
	prompt := tokens(1, 10)
	l, ticket := remote(t, dec, "acme", prompt)
	from := accepted(t, pre, preStore, "acme", ticket, prompt)
	l.End(CauseCancelled, nil)
	if st := dec.Stats(); st.Quarantined != 3 {
		t.Fatalf("%+v", st)
	}
	if _, err := from.Send(dec, 1); !errors.Is(err, ErrStalePage) {
		t.Fatal(err)
	}
	if st := dec.Stats(); st.Quarantined != 0 {
		t.Fatalf("%+v", st)
	}
	// The sender's pages were pinned for the copy only.
	from.End(CauseStop, nil)
	if st := pre.Stats(); st.Quarantined+st.Shared+st.Writable != 0 {
		t.Fatalf("%+v", st)
	}
}

// A peer that goes away lets the prompt be computed here instead.
func TestQuiescedRequestComputesItsOwnPrompt(t *testing.T) {
	_, dec, _, decStore := pair(t, 16, 16, nil)
	prompt := tokens(1, 10)
	l, ticket := remote(t, dec, "acme", prompt)
	if err := dec.receive(ticket, ticket.pages[1], 4, make([]byte, 4*rowBytes)); err != nil {
		t.Fatal(err)
	}
	if s, _ := dec.Begin([]Entry{{l, 0, prompt}}); len(s.Refused()) != 1 || !errors.Is(s.Refused()[0].Err, ErrBinding) {
		t.Fatal("a step ran into a hand-off")
	}
	l.Quiesced()
	prefill(t, dec, decStore, l)
	decode(t, dec, decStore, l, 5)
	l.End(CauseStop, nil)
}
