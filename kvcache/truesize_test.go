package kvcache

import (
	"errors"
	"fmt"
	"testing"
)

// weightless is a model without weights over memory without bytes: of every
// page it knows who wrote it, and a step that reads a page of anybody else
// says so. That is enough to run the incident at its true sizes.
type weightless struct {
	nullStore
	writer []uint64 // session, 0: scrubbed
	tags   []uint64
	writes int // pages written by steps
}

func newWeightless(pages int) *weightless {
	return &weightless{writer: make([]uint64, pages), tags: make([]uint64, pages)}
}

func (w *weightless) SetTag(page int, tag uint64) { w.tags[page] = tag }

func (w *weightless) Scrub(pages ...int) {
	for _, p := range pages {
		w.writer[p], w.tags[p] = 0, 0
	}
}

// run does a step of one sequence.
func (w *weightless) run(a Arrays, pageSize int) error {
	for i := range (int(a.KVLen[0]) + pageSize - 1) / pageSize {
		p := a.Pages[i]
		if w.tags[p] != a.PageTag[i] {
			return fmt.Errorf("page %d carries another tag", p)
		}
		if (i+1)*pageSize > int(a.Pos[0]) {
			w.writer[p] = a.Session[0]
			w.writes++
		}
		if w.writer[p] != a.Session[0] {
			return fmt.Errorf("position %d of session %d lies on a page of session %d", i*pageSize, a.Session[0], w.writer[p])
		}
	}
	return nil
}

// generate computes a prompt in chunks and one more token.
func (w *weightless) generate(t *testing.T, p *Pool, l *Lease, prompt []int32) {
	t.Helper()
	for at := 0; at <= len(prompt); {
		chunk := []int32{7}
		if at < len(prompt) {
			chunk = prompt[at:min(at+16384, len(prompt))]
		}
		s, err := p.Begin([]Entry{{l, at, chunk}})
		if err != nil || len(s.Refused()) > 0 {
			t.Fatal(err, s.Refused())
		}
		if err := s.Check(s.Arrays()); err != nil {
			t.Fatal(err)
		}
		if err := w.run(s.Arrays(), p.cfg.PageSize); err != nil {
			t.Fatal(err)
		}
		if out := s.Complete(results(s)); out[0] != nil {
			t.Fatal(out[0])
		}
		at += len(chunk)
	}
	if l.Valid() != len(prompt)+1 {
		t.Fatalf("the mark stands at %d, want %d", l.Valid(), len(prompt)+1)
	}
}

// The incident at its true sizes: a model of 1,048,576 tokens over a pool that
// holds 681,280, alone and as the smaller of two peers, and over one that holds
// 2,040,000, where the model is the limit. One number decides.
func TestFoundingIncidentAtTrueSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("a million tokens, again and again")
	}
	const page, advertised = 64, 1_048_576
	for _, c := range []struct {
		name         string
		pool, peer   int // tokens; peer 0: alone
		limit        int
		binding      Limit
		kind         error
		good, refuse []int // prompt and one token of output
	}{
		{"alone", 681_280, 0, 681_280, LimitPool, ErrContextExceedsPool, []int{681_279, 681_280}, []int{681_281, advertised}},
		{"decode side", 2_040_000, 681_280, 681_280, LimitPeer, ErrContextExceedsPool, []int{681_280}, []int{681_281, advertised}},
		{"larger pool", 2_040_000, 0, advertised, LimitModel, ErrContextExceedsModel, []int{681_281, advertised}, []int{advertised + 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			big := func(tokens int) (*Pool, *weightless) {
				checkEveryEvent = false // its cost grows with the pool
				defer func() { checkEveryEvent = true }()
				cfg := Config{Pages: tokens/page + 1, PageSize: page, Context: advertised, AllowSmallerPool: true}
				store := newWeightless(cfg.Pages)
				p, err := New(cfg, store)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
				return p, store
			}
			p, store := big(c.pool)
			if c.peer > 0 {
				prefill, _ := big(c.peer)
				if err := Pair(prefill, p); err != nil {
					t.Fatal(err)
				}
			}
			if l := p.Limits(); l.Context != c.limit || l.Binding != c.binding {
				t.Fatalf("%+v", l)
			}
			// Every page holds a marker of somebody else.
			donor := session(t, p, "donor")
			for soaked := 0; soaked < c.pool; soaked += c.limit {
				n := min(c.limit, c.pool-soaked) - 1
				l := admitted(t, donor, tokens(soaked, n), 1)
				store.generate(t, p, l, l.known)
				l.End(CauseStop, nil)
			}
			marked := 0
			for _, w := range store.writer {
				if w == donor.ID() {
					marked++
				}
			}
			if marked < c.pool/page-2 {
				t.Fatalf("%d of %d pages soaked", marked, c.pool/page)
			}
			for _, n := range c.good {
				l := admitted(t, session(t, p, ""), tokens(n, n-1), 1)
				store.generate(t, p, l, l.known)
				l.End(CauseLength, nil)
			}
			before, writes := p.Stats(), store.writes
			for _, n := range c.refuse {
				_, err := session(t, p, "victim").Admit(t.Context(), Request{Tokens: tokens(0, n-1), MaxTokens: 1})
				var e *ContextError
				if !errors.As(err, &e) || !errors.Is(err, c.kind) || e.Max != c.limit || e.Prompt != n-1 || e.Limit != c.binding {
					t.Errorf("%d tokens: %v", n, err)
				}
			}
			after := p.Stats()
			before.Dirty, before.Free, after.Dirty, after.Free = 0, before.Dirty+before.Free, 0, after.Dirty+after.Free
			if before != after || store.writes != writes {
				t.Errorf("refusals moved pages: %+v, then %+v", before, after)
			}
		})
	}
}
