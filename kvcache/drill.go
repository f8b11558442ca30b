package kvcache

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
)

// A Trial is one guard put to the test alone: everything that would also have
// stopped the leak is passed by.
type Trial struct {
	Guard   string
	Story   string // what happens, and what has failed already
	Foreign int    // rows of another tenant that were read
	Stopped error  // what the guard said; nil if it works without words
	Err     error  // the trial itself went wrong, and proves nothing
}

// Held reports whether the guard alone kept every foreign row away.
func (t Trial) Held() bool { return t.Foreign == 0 && t.Err == nil }

// Drill holds a trial of every guard of this build, on small pools of its own.
// No running pool is touched. It is a self-test for the start of a server: in a
// build as it is released every guard holds. Guards overlap, so that of a build
// that lacks one nothing can be seen in service; here it can.
//
// The control trials come first: with no guard in the way the foreign rows must
// be read, or the drill would be blind; then Err says so.
func Drill() []Trial {
	founding, late := foundingTrial(""), lateTrial("")
	for _, control := range []*Trial{&founding, &late} {
		control.Guard = "none"
		if control.Err == nil && control.Foreign == 0 {
			control.Err = errors.New("kvcache: without any guard no foreign row was read: the drill is blind")
		} else if control.Err == nil {
			control.Foreign = 0 // they were there to be read
		}
	}
	trials := []Trial{founding, late}
	for _, guard := range []string{"ADMIT", "TERM", "HAND", "MARK", "SCRUB"} {
		trials = append(trials, foundingTrial(guard))
	}
	for _, guard := range []string{"QUIET", "GEN", "SUM"} {
		trials = append(trials, lateTrial(guard))
	}
	return append(trials, keyTrial(), scopeTrial())
}

const (
	drillPage    = 4
	drillContext = 256
	drillDecode  = 40  // pages of the decode pool
	drillPrefill = 17  // pages of the prefill pool: 64 tokens
	drillPrompt  = 100 // fits the one and not the other

	unwritten, donor, victim = 0, 1, 2 // who wrote a row
)

// drillStore is memory that remembers of every row who wrote it.
type drillStore struct {
	rows   []byte
	scrubs bool
}

func (m *drillStore) page(i int) []byte         { return m.rows[i*drillPage : (i+1)*drillPage] }
func (m *drillStore) SetTag(page int, _ uint64) {}
func (m *drillStore) Scrub(pages ...int) {
	for _, p := range pages {
		if m.scrubs {
			clear(m.page(p))
		}
	}
}
func (m *drillStore) Export(dst []byte, page int) []byte { return append(dst, m.page(page)...) }
func (m *drillStore) Import(page int, data []byte) error { copy(m.page(page), data); return nil }
func (m *drillStore) Sum(page int) uint64 {
	h := fnv.New64a()
	h.Write(m.page(page))
	return h.Sum64()
}

// row is where position pos of the first sequence lies.
func (m *drillStore) row(a Arrays, pos int) *byte {
	return &m.page(int(a.Pages[pos/drillPage]))[pos%drillPage]
}

// foreign counts the rows below limit that a step reads and the victim did not
// write.
func (m *drillStore) foreign(a Arrays, limit int) (n int) {
	for pos := range limit {
		if *m.row(a, pos) == donor {
			n++
		}
	}
	return n
}

func drillPool(pages int, checksums bool, m *drillStore) (*Pool, error) {
	m.rows = make([]byte, pages*drillPage)
	p, err := New(Config{Pages: pages, PageSize: drillPage, Context: drillContext, AllowSmallerPool: true, Checksums: checksums}, m)
	if err == nil {
		p.checked = false // its states are broken on purpose
	}
	return p, err
}

func drillTokens(first int32, n int) []int32 {
	t := make([]int32, n)
	for i := range t {
		t[i] = first + int32(i)
	}
	return t
}

// compute admits a prompt of a tenant and computes it.
func compute(p *Pool, m *drillStore, tenant string, prompt []int32, by byte) (*Lease, error) {
	s, err := p.NewSession(tenant)
	if err != nil {
		return nil, err
	}
	l, err := s.Admit(context.Background(), Request{Tokens: prompt, MaxTokens: 1})
	if err != nil {
		return nil, err
	}
	step, err := p.Begin([]Entry{{l, l.Valid(), prompt[l.Valid():]}})
	if err != nil {
		return nil, err
	}
	if r := step.Refused(); len(r) > 0 {
		return nil, r[0].Err
	}
	a := step.Arrays()
	for _, pos := range a.Pos {
		*m.row(a, int(pos)) = by
	}
	return l, errors.Join(step.Complete([]Result{{a.Session[0], a.Tag[0], step.Epoch(), len(a.IDs)}})...)
}

// soak leaves the donor's rows in pages that are then free.
func soak(p *Pool, m *drillStore, rows int) error {
	l, err := compute(p, m, "donor", drillTokens(1000, rows-1), donor)
	if err != nil {
		return err
	}
	l.End(CauseStop, nil)
	return p.Forget(context.Background(), "donor")
}

// reads lets a request read all that lies before its mark.
func reads(p *Pool, m *drillStore, l *Lease, mark int) (foreign int, err error) {
	step, err := p.Begin([]Entry{{l, mark, []int32{7}}})
	if err != nil {
		return 0, err
	}
	defer step.Abort()
	if r := step.Refused(); len(r) > 0 {
		return 0, r[0].Err
	}
	return m.foreign(step.Arrays(), mark), nil
}

// foundingTrial replays the leak: a prompt that fits the decode pool and not
// the prefill pool, a refusal that is not terminal, a placeholder of one row,
// a commit, and a reader that believes in the prompt's length. Of the five
// guards only one is there.
func foundingTrial(guard string) (t Trial) {
	t = Trial{Guard: guard, Story: "a refused prompt is handed off as one row and read at full length"}
	m := &drillStore{scrubs: guard == "SCRUB"}
	dec, err := drillPool(drillDecode, false, m)
	if err != nil {
		t.Err = err
		return t
	}
	defer dec.Close()
	if t.Err = soak(dec, m, (drillDecode-1)*drillPage); t.Err != nil {
		return t
	}
	if guard == "ADMIT" {
		dec.mu.Lock()
		dec.apply(peer{(drillPrefill - 1) * drillPage})
		dec.mu.Unlock()
	}
	prompt := drillTokens(1, drillPrompt)
	s, err := dec.NewSession("victim")
	if err != nil {
		t.Err = err
		return t
	}
	l, err := s.Admit(context.Background(), Request{Tokens: prompt, MaxTokens: 4, Remote: true})
	if err != nil {
		return t.stop("ADMIT", ErrContextExceedsPool, err)
	}
	if guard == "TERM" {
		if stopped, err := refusalStays(); stopped != nil || err != nil {
			t.Stopped, t.Err = stopped, err
			return t
		}
	}
	ticket, err := l.Ticket()
	if err == nil {
		err = dec.receive(ticket, ticket.pages[0], 1, []byte{victim, 0, 0, 0})
	}
	if err != nil {
		t.Err = err
		return t
	}
	if guard == "HAND" {
		short := ticket
		short.tokens, short.pages = 1, ticket.pages[:1]
		if err := l.Commit(Manifest{ticket: short, first: 7}); err != nil {
			return t.stop("HAND", ErrHandoff, err)
		}
	}
	dec.believe(l, drillPrompt, guard != "MARK")
	if t.Foreign, err = reads(dec, m, l, drillPrompt); err != nil {
		return t.stop("MARK", ErrUnwritten, err)
	}
	return t
}

// stop notes that an error ended the story: the guard's, if it is its own.
func (t Trial) stop(guard string, want, err error) Trial {
	if t.Guard == guard && errors.Is(err, want) {
		t.Stopped = err
	} else {
		t.Err = fmt.Errorf("kvcache: trial of %q: %w", t.Guard, err)
	}
	return t
}

// refusalStays refuses a prompt at the prefill side and reports its success
// afterwards. It returns the refusal if that is still what counts.
func refusalStays() (refusal, err error) {
	pre, err := drillPool(drillPrefill, false, &drillStore{})
	if err != nil {
		return nil, err
	}
	defer pre.Close()
	pre.mu.Lock()
	defer pre.mu.Unlock()
	fx, err := pre.apply(submit{session: 1, scope: Scope{Tenant: "victim"}, prompt: drillPrompt, output: 1})
	if err != nil || fx.refusal == nil {
		return nil, fmt.Errorf("kvcache: a prompt above the limit was not refused: %w", errors.Join(err, ErrContextExceedsPool))
	}
	later, err := pre.apply(end{fx.id, CauseLength})
	if err != nil {
		return nil, err
	}
	pre.apply(release{fx.id})
	if later.cause != CauseRefused {
		return nil, nil
	}
	return fx.refusal, nil
}

// believe raises a mark as an engine without guards would: to a number, over
// rows that may never have arrived. With filled the pages say so as well.
func (p *Pool) believe(l *Lease, mark int32, filled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.core.lease(l.id)
	p.core.unpin(c, byWriter)
	c.ticket, c.private, c.valid = Nonce{}, true, mark
	for _, r := range c.table {
		if filled {
			p.core.s.pages[r.page].filled = drillPage
		}
	}
}

// lateTrial replays the leak's mirror image: a cancelled hand-off's last write
// arrives when its page, if that was freed at once, is another request's. Of
// the three guards only one is there.
func lateTrial(guard string) (t Trial) {
	t = Trial{Guard: guard, Story: "a cancelled request's write arrives after its page went to another"}
	const rows = 7
	m := &drillStore{scrubs: true}
	p, err := drillPool(5, true, m)
	if err != nil {
		t.Err = err
		return t
	}
	defer p.Close()
	a, ticket, err := remotePrompt(p, "donor", drillTokens(1000, rows)) // pages 1 and 2
	if err != nil {
		t.Err = err
		return t
	}
	rest, err := compute(p, m, "", drillTokens(500, rows), unwritten) // pages 3 and 4
	if err != nil {
		t.Err = err
		return t
	}
	a.End(CauseCancelled, nil)
	if guard != "QUIET" {
		a.Quiesced() // before the writer is quiet
	}
	p.settled()
	rest.End(CauseStop, nil)
	rest.session.Close()
	p.settled()

	foreign := []byte{donor, donor, donor, donor}
	var b *Lease
	if guard == "SUM" {
		var to Ticket
		prompt := drillTokens(1, rows)
		if b, to, err = remotePrompt(p, "victim", prompt); err != nil {
			t.Err = err
			return t
		}
		manifest := Manifest{ticket: to}
		for i, r := range to.pages {
			err = errors.Join(err, p.receive(to, r, int32(min(drillPage, rows-i*drillPage)), []byte{victim, victim, victim, victim}))
			manifest.sums = append(manifest.sums, m.Sum(int(r.page)))
		}
		if err != nil {
			t.Err = err
			return t
		}
		m.Import(int(ticket.pages[0].page), foreign)
		if err := b.Commit(manifest); err != nil {
			return t.stop("SUM", ErrHandoff, err)
		}
	} else {
		if b, err = compute(p, m, "victim", drillTokens(1, rows), victim); err != nil {
			t.Err = err
			return t
		}
		if guard == "GEN" {
			t.Stopped = p.receive(ticket, ticket.pages[0], drillPage, foreign)
		} else {
			m.Import(int(ticket.pages[0].page), foreign)
		}
	}
	t.Foreign, t.Err = reads(p, m, b, rows)
	return t
}

// remotePrompt admits a prompt that a peer computes, and issues its ticket.
func remotePrompt(p *Pool, tenant string, prompt []int32) (*Lease, Ticket, error) {
	s, err := p.NewSession(tenant)
	if err != nil {
		return nil, Ticket{}, err
	}
	l, err := s.Admit(context.Background(), Request{Tokens: prompt, MaxTokens: 1, Remote: true})
	if err != nil {
		return nil, Ticket{}, err
	}
	t, err := l.Ticket()
	return l, t, err
}

// settled waits until nothing is dirty: which page is leased next depends on
// the order in which pages became free.
func (p *Pool) settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.core.s.dirty.n+p.core.s.scrubbing > 0 {
		p.changed.Wait()
	}
}

// keyTrial asks whether the key alone keeps tenants apart, if a hit were not
// compared with scope and tokens.
func keyTrial() Trial {
	t := Trial{Guard: "KEY", Story: "two tenants send one prompt, and a hit is not compared"}
	id := identity(Config{PageSize: drillPage})
	tokens := drillTokens(1, drillPage)
	found := map[Key]bool{}
	for _, s := range []Scope{{Tenant: "donor"}, {Tenant: "victim"}, {Session: 1}, {Session: 2}, {Tenant: "\x00\x00\x00\x00\x00\x00\x00\x01"}} {
		k, _ := pageKey(sha, nil, rootKey(sha, id, s), tokens)
		if found[k] {
			t.Foreign += drillPage
		}
		found[k] = true
	}
	return t
}

// scopeTrial asks whether the comparison alone keeps tenants apart, if all keys
// were equal.
func scopeTrial() (t Trial) {
	t = Trial{Guard: "SCOPE", Story: "two tenants send one prompt, and all keys are equal"}
	m := &drillStore{scrubs: true}
	p, err := drillPool(12, false, m)
	if err != nil {
		t.Err = err
		return t
	}
	defer p.Close()
	p.mu.Lock()
	p.core.hash = func([]byte) Key { return Key{} }
	p.mu.Unlock()
	prompt := drillTokens(1, 4*drillPage)
	l, err := compute(p, m, "donor", prompt, donor)
	if err != nil {
		t.Err = err
		return t
	}
	l.End(CauseStop, nil)
	for _, tenant := range []string{"victim", ""} {
		l, err := compute(p, m, tenant, prompt, victim)
		if err != nil {
			t.Err = err
			return t
		}
		foreign, err := reads(p, m, l, len(prompt))
		l.End(CauseStop, nil)
		t.Foreign, t.Err = t.Foreign+foreign, errors.Join(t.Err, err)
	}
	return t
}
