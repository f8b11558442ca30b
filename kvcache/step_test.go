package kvcache

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func refusedOne(t *testing.T, p *Pool, e Entry) error {
	t.Helper()
	s, err := p.Begin([]Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Refused()) != 1 || s.Epoch() != 0 {
		t.Fatal("not refused")
	}
	return s.Refused()[0].Err
}

func TestBeginRefuses(t *testing.T) {
	p, store := testPool(t, 8, nil)
	q, _ := testPool(t, 8, nil)
	s := session(t, p, "a")
	l := admitted(t, s, tokens(1, 6), 4)
	for _, c := range []struct {
		name string
		e    Entry
		want error
	}{
		{"above the mark", Entry{l, 1, tokens(2, 1)}, ErrUnwritten},
		{"far above the mark", Entry{l, 1 << 40, tokens(2, 1)}, ErrUnwritten},
		{"negative", Entry{l, -1, tokens(1, 1)}, ErrUnwritten},
		{"other tokens than admitted", Entry{l, 0, tokens(2, 3)}, ErrBinding},
		{"more than reserved", Entry{l, 0, tokens(1, 11)}, ErrContextExceedsModel},
		{"nothing", Entry{l, 0, nil}, ErrContextExceedsModel},
		{"no request", Entry{nil, 0, tokens(1, 6)}, ErrBinding},
		{"another pool's", Entry{admitted(t, session(t, q, "a"), tokens(1, 6), 4), 0, tokens(1, 6)}, ErrBinding},
	} {
		if err := refusedOne(t, p, c.e); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	prefill(t, p, store, l)
	if err := refusedOne(t, p, Entry{l, 0, tokens(1, 6)}); !errors.Is(err, ErrUnwritten) {
		t.Errorf("below the mark: %v", err)
	}
	in, _ := p.Begin([]Entry{{l, 6, []int32{9}}})
	if err := refusedOne(t, p, Entry{l, 6, []int32{9}}); !errors.Is(err, ErrBinding) {
		t.Errorf("in two steps: %v", err)
	}
	in.Abort()
	if _, err := p.Begin([]Entry{{l, 6, []int32{9}}, {l, 6, []int32{9}}}); !errors.Is(err, ErrBinding) {
		t.Errorf("twice in one step: %v", err)
	}
	l.End(CauseCancelled, nil)
	if err := refusedOne(t, p, Entry{l, 6, []int32{9}}); !errors.Is(err, ErrEnded) {
		t.Errorf("ended: %v", err)
	}
	p.Close()
	if _, err := p.Begin(nil); !errors.Is(err, ErrPoolClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A page under another generation, owner or scope than its handle says, or
// with fewer rows than the mark says, is never read.
func TestBeginChecksEveryPage(t *testing.T) {
	for _, c := range []struct {
		name string
		mar  func(*core, *lease)
		want error
		at   int
	}{
		{"generation", func(c *core, l *lease) { c.s.pages[l.table[1].page].gen++ }, ErrStalePage, 4},
		{"owner", func(c *core, l *lease) { c.s.pages[l.table[2].page].owner = 7 }, ErrStalePage, 8},
		{"scope", func(c *core, l *lease) { c.s.index.entries[l.table[0].page].scope = Scope{Tenant: "b"} }, ErrStalePage, 0},
		{"freed", func(c *core, l *lease) { c.s.pages[l.table[1].page].state = pageDirty }, ErrStalePage, 4},
		{"rows", func(c *core, l *lease) { c.s.pages[l.table[2].page].filled = 1 }, ErrUnwritten, 9},
	} {
		p, store := testPool(t, 8, nil)
		l := admitted(t, session(t, p, "a"), tokens(1, 10), 4)
		prefill(t, p, store, l)
		var whole state
		inside(p, func(core *core) {
			whole = core.s.clone()
			p.checked = false
			c.mar(core, core.lease(l.id))
		})
		s, err := p.Begin([]Entry{{l, 10, []int32{1}}})
		inside(p, func(core *core) {
			core.s = whole
			p.checked = true
		})
		if err != nil || len(s.Refused()) != 1 {
			t.Fatalf("%s: not refused, %v", c.name, err)
		}
		err = s.Refused()[0].Err
		var e *IntegrityError
		if !errors.As(err, &e) || !errors.Is(err, c.want) || e.Position != c.at {
			t.Errorf("%s: %v", c.name, err)
		}
		l.End(CauseStop, nil)
	}
}

func TestAbortRaisesNoMark(t *testing.T) {
	p, store := testPool(t, 8, nil)
	l := admitted(t, session(t, p, "a"), tokens(1, 6), 4)
	s, _ := p.Begin([]Entry{{l, 0, tokens(1, 6)}})
	s.Abort()
	s.Abort()
	if out := s.Complete(results(s)); !errors.Is(out[0], ErrBinding) {
		t.Fatalf("completed after Abort: %v", out)
	}
	if l.Valid() != 0 {
		t.Fatalf("mark %d", l.Valid())
	}
	prefill(t, p, store, l)
	l.End(CauseStop, nil)
}

// Only results that name the right session, lease and step count.
func TestCompleteChecksTheEcho(t *testing.T) {
	for name, spoil := range map[string]func(*Result){
		"session":  func(r *Result) { r.Session++ },
		"lease":    func(r *Result) { r.Tag++ },
		"epoch":    func(r *Result) { r.Epoch-- },
		"rows":     func(r *Result) { r.Rows = 7 },
		"negative": func(r *Result) { r.Rows = -1 },
		"huge":     func(r *Result) { r.Rows = 1 << 40 },
	} {
		p, store := testPool(t, 8, nil)
		l, n := admitted(t, session(t, p, "a"), tokens(1, 6), 4), admitted(t, session(t, p, "b"), tokens(1, 6), 4)
		s, _ := p.Begin([]Entry{{l, 0, tokens(1, 6)}, {n, 0, tokens(1, 6)}})
		rs := results(s)
		spoil(&rs[0])
		rs = append(rs, rs[1]) // the neighbour's comes twice
		out := s.Complete(rs)
		if !errors.Is(out[0], ErrBinding) || out[1] != nil || !errors.Is(out[2], ErrBinding) {
			t.Errorf("%s: %v", name, out)
		}
		if l.Valid() != 0 || n.Valid() != 6 {
			t.Errorf("%s: marks %d and %d", name, l.Valid(), n.Valid())
		}
		prefill(t, p, store, l)
		l.End(CauseStop, nil)
		n.End(CauseStop, nil)
		if st := p.Stats(); st.Integrity != 2 {
			t.Errorf("%s: %d integrity errors counted", name, st.Integrity)
		}
	}
}

func TestFewerRowsRaiseTheMarkByThoseOnly(t *testing.T) {
	p, store := testPool(t, 8, func(c *Config) { c.Slack, c.Context = 3, 24 })
	l := admitted(t, session(t, p, "a"), tokens(1, 6), 4)
	prefill(t, p, store, l)
	s, _ := p.Begin([]Entry{{l, 6, []int32{7, 8, 9, 10}}})
	if err := store.run(s.Arrays(), func(int, int, row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	rs := results(s)
	rs[0].Rows = 1
	if out := s.Complete(rs); out[0] != nil || l.Valid() != 7 {
		t.Fatal(out, l.Valid())
	}
	if st := p.Stats(); st.Shared != 1 {
		t.Fatalf("a page with rejected rows was sealed: %+v", st)
	}
	decode(t, p, store, l, 20, 21)
	if st := p.Stats(); st.Shared != 2 {
		t.Fatalf("%+v", st)
	}
	l.End(CauseStop, nil)
}

// pad makes the arrays that a backend would upload: sequences in another
// order, longer tables, a padding sequence and padding rows.
func pad(a Arrays, order []int, stride, rows, seqs int) Arrays {
	up := Arrays{Stride: stride, QStart: []int32{0}}
	for q, from := range order {
		n := 0
		for r := a.QStart[from]; r < a.QStart[from+1]; r++ {
			up.IDs, up.Seq, up.Pos = append(up.IDs, a.IDs[r]), append(up.Seq, int32(q)), append(up.Pos, a.Pos[r])
			n++
		}
		for ; n%rows != 0; n++ {
			up.IDs, up.Seq, up.Pos = append(up.IDs, 0), append(up.Seq, -1), append(up.Pos, 0)
		}
		up.QStart = append(up.QStart, int32(len(up.IDs)))
		up.KVLen, up.Session, up.Tag = append(up.KVLen, a.KVLen[from]), append(up.Session, a.Session[from]), append(up.Tag, a.Tag[from])
		up.Pages = append(append(up.Pages, a.Pages[from*a.Stride:(from+1)*a.Stride]...), make([]int32, stride-a.Stride)...)
		up.PageTag = append(append(up.PageTag, a.PageTag[from*a.Stride:(from+1)*a.Stride]...), make([]uint64, stride-a.Stride)...)
	}
	for len(up.KVLen) < seqs {
		up.KVLen, up.Session, up.Tag = append(up.KVLen, 0), append(up.Session, 0), append(up.Tag, 0)
		up.QStart = append(up.QStart, int32(len(up.IDs)))
		up.Pages, up.PageTag = append(up.Pages, make([]int32, stride)...), append(up.PageTag, make([]uint64, stride)...)
	}
	up.IDs, up.Seq, up.Pos = append(up.IDs, 0), append(up.Seq, -1), append(up.Pos, 0)
	return up
}

func TestCheckBindsTheUpload(t *testing.T) {
	p, store := testPool(t, 16, nil)
	a, b := admitted(t, session(t, p, "a"), tokens(1, 10), 4), admitted(t, session(t, p, "b"), tokens(50, 6), 4)
	prefill(t, p, store, a)
	s, err := p.Begin([]Entry{{a, 10, []int32{7}}, {b, 0, tokens(50, 6)}})
	if err != nil {
		t.Fatal(err)
	}
	good := func() Arrays { return pad(s.Arrays(), []int{1, 0}, 5, 4, 3) }
	for _, up := range []Arrays{s.Arrays(), good(), pad(s.Arrays(), []int{0, 1}, 3, 1, 2)} {
		if err := s.Check(up); err != nil {
			t.Fatalf("a lawful upload: %v", err)
		}
	}
	// In good(), sequence 0 is b (2 pages, 6 rows and 2 of padding), sequence 1
	// is a (3 pages, 1 row), sequence 2 is padding.
	for name, spoil := range map[string]func(*Arrays){
		"page swapped between sequences": func(u *Arrays) { u.Pages[0], u.Pages[5] = u.Pages[5], u.Pages[0] },
		"pages and tags swapped between": func(u *Arrays) {
			u.Pages[0], u.Pages[5] = u.Pages[5], u.Pages[0]
			u.PageTag[0], u.PageTag[5] = u.PageTag[5], u.PageTag[0]
		},
		"pages swapped within": func(u *Arrays) { u.Pages[5], u.Pages[6] = u.Pages[6], u.Pages[5] },
		"page tag":             func(u *Arrays) { u.PageTag[6]++ },
		"foreign page":         func(u *Arrays) { u.Pages[7] = 15 },
		"null page for own":    func(u *Arrays) { u.Pages[5], u.PageTag[5] = NullPage, 0 },
		"page beyond the rows": func(u *Arrays) { u.Pages[8] = u.Pages[5] },
		"tag beyond the rows":  func(u *Arrays) { u.PageTag[8] = u.PageTag[5] },
		"page of padding":      func(u *Arrays) { u.Pages[10] = u.Pages[5] },
		"lease nonce":          func(u *Arrays) { u.Tag[1]++ },
		"nonces swapped":       func(u *Arrays) { u.Tag[0], u.Tag[1] = u.Tag[1], u.Tag[0] },
		"session":              func(u *Arrays) { u.Session[1]++ },
		"sequence twice": func(u *Arrays) {
			u.Tag[2], u.Session[2], u.KVLen[2] = u.Tag[1], u.Session[1], u.KVLen[1]
		},
		"sequence missing":         func(u *Arrays) { u.Tag[1], u.Session[1], u.KVLen[1] = 0, 0, 0 },
		"longer":                   func(u *Arrays) { u.KVLen[1]++ },
		"shorter":                  func(u *Arrays) { u.KVLen[0]-- },
		"position":                 func(u *Arrays) { u.Pos[1]++ },
		"token":                    func(u *Arrays) { u.IDs[2]++ },
		"row of another sequence":  func(u *Arrays) { u.Seq[0] = 1 },
		"padding row written":      func(u *Arrays) { u.Seq[6] = 0 },
		"last padding row written": func(u *Arrays) { u.Seq[len(u.Seq)-1] = 1 },
		"rows moved":               func(u *Arrays) { u.QStart[1]-- },
		"rows before the first":    func(u *Arrays) { u.QStart[0] = 1 },
		"rows out of range":        func(u *Arrays) { u.QStart[2] = 1000 },
		"negative rows":            func(u *Arrays) { u.QStart[1] = -1 },
		"short table":              func(u *Arrays) { u.Pages = u.Pages[:len(u.Pages)-1] },
		"short tags":               func(u *Arrays) { u.Tag = u.Tag[:2] },
		"smaller stride":           func(u *Arrays) { u.Stride = 2; u.Pages, u.PageTag = u.Pages[:6], u.PageTag[:6] },
		"empty":                    func(u *Arrays) { *u = Arrays{QStart: []int32{0}} },
		"zero":                     func(u *Arrays) { *u = Arrays{} },
	} {
		up := good()
		spoil(&up)
		if err := s.Check(up); !errors.Is(err, ErrBinding) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A sequence that runs twice, each time with all its rows.
	if err := s.Check(pad(s.Arrays(), []int{1, 0, 0}, 5, 4, 4)); !errors.Is(err, ErrBinding) {
		t.Errorf("a sequence twice: %v", err)
	}
	// The snapshot itself is not trusted: it may have been overwritten.
	snapshot := s.Arrays()
	snapshot.KVLen[0]++
	snapshot.Pos[0]++
	if err := s.Check(snapshot); !errors.Is(err, ErrBinding) {
		t.Errorf("overwritten snapshot: %v", err)
	}
	s.Abort()
	if err := s.Check(good()); !errors.Is(err, ErrBinding) {
		t.Errorf("after Abort: %v", err)
	}
	a.End(CauseStop, nil)
	b.End(CauseStop, nil)
}

// cloned returns arrays that share nothing with a.
func cloned(a Arrays) Arrays {
	for _, list := range []*[]int32{&a.IDs, &a.Seq, &a.Pos, &a.QStart, &a.KVLen, &a.Pages} {
		*list = append([]int32{}, *list...)
	}
	for _, list := range []*[]uint64{&a.Session, &a.Tag, &a.PageTag} {
		*list = append([]uint64{}, *list...)
	}
	return a
}

// A step in used memory is the step that it would be in new memory, however the one
// before it looked; and memory of a step in flight stays as it is.
func TestBeginInUsedMemory(t *testing.T) {
	p, store := testPool(t, 32, nil)
	a, b, c := admitted(t, session(t, p, "a"), tokens(1, 22), 10), admitted(t, session(t, p, "b"), tokens(50, 6), 10), admitted(t, session(t, p, "c"), tokens(80, 3), 10)
	prefill(t, p, store, c)
	var used StepMemory
	for _, entries := range [][]Entry{
		{{a, 0, tokens(1, 22)}, {b, 0, tokens(50, 6)}, {c, 3, []int32{4}}},
		{{b, 6, []int32{9}}, {a, 21, []int32{3}}}, // a is refused
		{{c, 4, []int32{8, 8, 8}}},
		{{a, 3, []int32{3}}}, // nobody is left
		{{a, 22, []int32{3}}, {c, 7, []int32{8}}},
	} {
		s, err := p.BeginIn(&used, entries)
		if err != nil {
			t.Fatal(err)
		}
		have := s.Arrays()
		if epoch := s.Epoch(); epoch != 0 {
			if _, err := p.BeginIn(&used, entries); !errors.Is(err, ErrBinding) {
				t.Errorf("memory of a step in flight: %v", err)
			}
			if s.Epoch() != epoch || s.Check(have) != nil {
				t.Error("a step in flight was overwritten")
			}
		}
		for _, ids := range [][]int32{have.IDs[len(have.IDs):cap(have.IDs)], used.arrays.IDs[len(have.IDs):cap(used.arrays.IDs)]} {
			if slices.ContainsFunc(ids, func(id int32) bool { return id != 0 }) {
				t.Error("tokens of a step before are kept")
			}
		}
		for _, f := range used.feeds[:cap(used.feeds)] {
			if f.tokens != nil {
				t.Error("tokens of the caller are kept")
			}
		}
		have = cloned(have)
		leases, refused := slices.Clone(s.Leases()), len(s.Refused())
		s.Abort()
		fresh, err := p.Begin(entries)
		if err != nil {
			t.Fatal(err)
		}
		want := cloned(fresh.Arrays())
		if !reflect.DeepEqual(want, have) || !slices.Equal(leases, fresh.Leases()) || refused != len(fresh.Refused()) {
			t.Errorf("in used memory %+v\nin new memory %+v", have, want)
		}
		fresh.Complete(results(fresh))
	}
	for _, l := range []*Lease{a, b, c} {
		l.End(CauseStop, nil)
	}
}

// Who still holds a step whose memory serves another finds nothing there and ends
// nothing; and memory has one owner.
func TestOldStepEndsNothing(t *testing.T) {
	p, store := testPool(t, 32, nil)
	other, _ := testPool(t, 8, nil)
	a, b := admitted(t, session(t, p, "a"), tokens(1, 6), 10), admitted(t, session(t, p, "b"), tokens(50, 6), 10)
	prefill(t, p, store, a)
	var m StepMemory
	old, err := p.BeginIn(&m, []Entry{{a, 6, []int32{7}}})
	if err != nil {
		t.Fatal(err)
	}
	upload, rs := cloned(old.Arrays()), results(old)
	for _, err := range old.Complete(rs) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if errs := old.Complete(rs); !errors.Is(errs[0], ErrBinding) {
		t.Errorf("completed twice: %v", errs)
	}
	now, err := p.BeginIn(&m, []Entry{{b, 0, tokens(50, 6)}})
	if err != nil {
		t.Fatal(err)
	}
	old.Abort()
	if errs := old.Complete(results(now)); !errors.Is(errs[0], ErrBinding) {
		t.Errorf("an old step completes: %v", errs)
	}
	if err := old.Check(upload); !errors.Is(err, ErrBinding) {
		t.Errorf("an old step checks an upload: %v", err)
	}
	if old.Epoch() != 0 || old.Leases() != nil || old.Refused() != nil || !reflect.DeepEqual(old.Arrays(), Arrays{}) {
		t.Error("an old step shows another's")
	}
	if err := now.Check(now.Arrays()); err != nil {
		t.Errorf("ended by an old one: %v", err)
	}

	copied := m
	m.beginning = true
	_, concurrent := p.BeginIn(&m, nil)
	m.beginning = false
	_, inFlight := p.BeginIn(&m, nil)
	now.Complete(results(now))
	_, copy := p.BeginIn(&copied, nil)
	_, foreign := other.BeginIn(&m, nil)
	for what, err := range map[string]error{"beginning": concurrent, "in flight": inFlight, "a copy": copy, "of another pool": foreign} {
		if !errors.Is(err, ErrBinding) {
			t.Errorf("memory that is %s: %v", what, err)
		}
	}

	a.End(CauseStop, nil)
	b.End(CauseStop, nil)
	p.Close()
	closed, err := p.BeginIn(&m, nil)
	if !errors.Is(err, ErrPoolClosed) {
		t.Errorf("a closed pool: %v", err)
	}
	closed.Abort()
	if err := closed.Check(upload); !errors.Is(err, ErrBinding) {
		t.Errorf("no step checks an upload: %v", err)
	}
	if errs := closed.Complete(rs); len(errs) != 1 || !errors.Is(errs[0], ErrBinding) {
		t.Errorf("no step completes: %v", errs)
	}
}

// Two requests that compute the same page at the same time: the second reads
// the first one's from then on.
func TestTwinsMerge(t *testing.T) {
	p, store := testPool(t, 8, func(c *Config) { c.Checksums = true })
	a, b := admitted(t, session(t, p, "a"), tokens(1, 10), 2), admitted(t, session(t, p, "a"), tokens(1, 10), 2)
	step(t, p, store, Entry{a, 0, tokens(1, 10)}, Entry{b, 0, tokens(1, 10)})
	if st := p.Stats(); st.Shared != 2 || st.Writable != 2 {
		t.Fatalf("%+v", st)
	}
	inside(p, func(c *core) {
		if ta, tb := c.lease(a.id).table, c.lease(b.id).table; !slices.Equal(ta[:2], tb[:2]) || ta[2] == tb[2] {
			t.Fatalf("%v and %v", ta, tb)
		}
	})
	a.End(CauseStop, nil)
	decode(t, p, store, b, 30, 31)
	b.End(CauseStop, nil)
}

// A page whose bytes have changed since it was sealed is never reused: whoever
// was about to read it, or reads it, fails, and it is forgotten with all that
// continues it.
func TestChecksumStopsChangedBytes(t *testing.T) {
	p, store := testPool(t, 16, func(c *Config) { c.Checksums = true })
	s := session(t, p, "a")
	l := admitted(t, s, tokens(1, 14), 2)
	prefill(t, p, store, l)
	inside(p, func(c *core) { store.pages[c.lease(l.id).table[1].page].rows[2].token++ })
	_, err := s.Admit(t.Context(), Request{Tokens: tokens(1, 14), MaxTokens: 1})
	if !errors.Is(err, ErrStalePage) {
		t.Fatal(err)
	}
	if err := refusedOne(t, p, Entry{l, 14, []int32{1}}); !errors.Is(err, ErrStalePage) {
		t.Fatal(err)
	}
	if c, _ := l.End(CauseStop, nil); c != CauseFailed {
		t.Fatal(c)
	}
	again := admitted(t, s, tokens(1, 14), 2)
	if again.Reused() != 4 {
		t.Fatalf("reused %d, want the one page before the changed one", again.Reused())
	}
	prefill(t, p, store, again)
	again.End(CauseStop, nil)
}

// No error text and no audit record holds a token.
func TestNothingSaysTokens(t *testing.T) {
	const marker = 987654321
	var said []string
	p, store := testPool(t, 8, func(c *Config) {
		c.Audit = func(r Record) {
			text := r.Tenant
			if r.Err != nil {
				text += r.Err.Error()
			}
			said = append(said, r.Event.String()+" "+r.Cause.String()+" "+text)
		}
	})
	prompt := slices.Repeat([]int32{marker}, 6)
	l := admitted(t, session(t, p, "tenant name"), prompt, 4)
	said = append(said, refusedOne(t, p, Entry{l, 0, tokens(1, 2)}).Error(), refusedOne(t, p, Entry{l, 3, prompt[3:]}).Error())
	st, _ := p.Begin([]Entry{{l, 0, prompt}})
	up := st.Arrays()
	up.IDs = slices.Clone(up.IDs)
	up.IDs[1] = 1
	said = append(said, st.Check(up).Error())
	st.Abort()
	prefill(t, p, store, l)
	l.End(CauseStop, nil)
	if err := p.Forget(t.Context(), "tenant name"); err != nil {
		t.Fatal(err)
	}
	if len(said) < 8 {
		t.Fatalf("only %d texts", len(said))
	}
	for _, text := range said {
		if strings.Contains(text, "987654321") || strings.Contains(text, "tenant name") {
			t.Error(text)
		}
	}
}
