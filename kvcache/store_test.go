package kvcache

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	checkEveryEvent = true
	os.Exit(m.Run())
}

// row is what the tag model keeps instead of numbers: who wrote it, and where.
type row struct {
	session, tag, pos, token uint64
}

var poison = row{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

const rowBytes = 32

// tagStore is memory whose rows name their writer. Pages are separate
// allocations without a lock, so the race detector sees any two users of a
// page that nothing orders.
type tagStore struct {
	pageSize int
	pages    []*tagPage
}

type tagPage struct {
	tag  uint64
	rows []row
}

func newTagStore(pages, pageSize int) *tagStore {
	s := &tagStore{pageSize: pageSize}
	for range pages {
		p := &tagPage{rows: make([]row, pageSize)}
		for i := range p.rows {
			p.rows[i] = poison
		}
		s.pages = append(s.pages, p)
	}
	return s
}

func (s *tagStore) SetTag(page int, tag uint64) { s.pages[page].tag = tag }

func (s *tagStore) Scrub(pages ...int) {
	for _, p := range pages {
		s.pages[p].tag = 0
		for i := range s.pages[p].rows {
			s.pages[p].rows[i] = poison
		}
	}
}

func (s *tagStore) Export(dst []byte, page int) []byte {
	for _, r := range s.pages[page].rows {
		for _, v := range [...]uint64{r.session, r.tag, r.pos, r.token} {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
	}
	return dst
}

func (s *tagStore) Import(page int, data []byte) error {
	if len(data) != s.pageSize*rowBytes {
		return fmt.Errorf("page %d: %d bytes, want %d", page, len(data), s.pageSize*rowBytes)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[8*i:]) }
	for i := range s.pages[page].rows {
		s.pages[page].rows[i] = row{word(4 * i), word(4*i + 1), word(4*i + 2), word(4*i + 3)}
	}
	return nil
}

func (s *tagStore) Sum(page int) uint64 {
	h := fnv.New64a()
	h.Write(s.Export(nil, page))
	return h.Sum64()
}

// run does what a backend does with a step, on tags: it checks the sidecars,
// writes the rows, and lets every row read all positions up to its own. legal
// judges a row that sequence q read.
func (s *tagStore) run(a Arrays, legal func(q int, pos int, r row) error) error {
	for q := range a.KVLen {
		table := a.Pages[q*a.Stride : (q+1)*a.Stride]
		tags := a.PageTag[q*a.Stride : (q+1)*a.Stride]
		for i := 0; i*s.pageSize < int(a.KVLen[q]); i++ {
			if have := s.pages[table[i]].tag; have != tags[i] {
				return fmt.Errorf("sequence %d: page %d carries tag %d, the step says %d", q, table[i], have, tags[i])
			}
		}
		for r := a.QStart[q]; r < a.QStart[q+1]; r++ {
			if int(a.Seq[r]) != q {
				continue
			}
			pos := int(a.Pos[r])
			page := s.pages[table[pos/s.pageSize]]
			if page.tag != a.Tag[q] {
				return fmt.Errorf("sequence %d writes position %d on a page of tag %d, its own is %d", q, pos, page.tag, a.Tag[q])
			}
			page.rows[pos%s.pageSize] = row{a.Session[q], a.Tag[q], uint64(pos), uint64(a.IDs[r])}
			for p := 0; p <= pos; p++ {
				if err := legal(q, p, s.pages[table[p/s.pageSize]].rows[p%s.pageSize]); err != nil {
					return fmt.Errorf("sequence %d, position %d reads %d: %w", q, pos, p, err)
				}
			}
		}
	}
	return nil
}

// results echoes a step whose rows all arrived.
func results(s Step) []Result {
	a := s.Arrays()
	var out []Result
	for q := range a.KVLen {
		out = append(out, Result{Session: a.Session[q], Tag: a.Tag[q], Epoch: s.Epoch(), Rows: int(a.QStart[q+1] - a.QStart[q])})
	}
	return out
}

// testPool makes a pool of pages usable pages of 4 positions.
func testPool(t testing.TB, pages int, change func(*Config)) (*Pool, *tagStore) {
	t.Helper()
	cfg := Config{Pages: pages + 1, PageSize: 4, Context: 4 * pages, Identity: Identity{Weights: "w", Tokenizer: "t"}}
	if change != nil {
		change(&cfg)
	}
	store := newTagStore(cfg.Pages, cfg.PageSize)
	p, err := New(cfg, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inside(p, func(c *core) { // a test that failed in mid-step
			for i := range c.s.leases {
				if epoch := c.s.leases[i].step; epoch != 0 && t.Failed() {
					c.apply(abort{epoch})
				}
			}
		})
		p.Close()
		if s := p.Stats(); s.Free != s.Pages {
			t.Errorf("after Close: %+v", s)
		}
	})
	return p, store
}

// inside looks into, or spoils, a pool's core.
func inside(p *Pool, f func(*core)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.core)
}

// tokens returns n tokens that start at from.
func tokens(from, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(from + i)
	}
	return out
}

func session(t testing.TB, p *Pool, tenant string) *Session {
	t.Helper()
	s, err := p.NewSession(tenant)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func admitted(t testing.TB, s *Session, prompt []int32, output int) *Lease {
	t.Helper()
	l, err := s.Admit(t.Context(), Request{Tokens: prompt, MaxTokens: output})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// step runs the entries to the end, every row arriving.
func step(t testing.TB, p *Pool, store *tagStore, entries ...Entry) {
	t.Helper()
	s, err := p.Begin(entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Refused() {
		t.Fatalf("refused: %v", r.Err)
	}
	if err := s.Check(s.Arrays()); err != nil {
		t.Fatal(err)
	}
	err = store.run(s.Arrays(), func(q, pos int, r row) error {
		if r.pos != uint64(pos) {
			return fmt.Errorf("a row of position %d, session %d", r.pos, r.session)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Complete(results(s)) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// prefill computes the rest of what the lease was admitted with.
func prefill(t testing.TB, p *Pool, store *tagStore, l *Lease) {
	t.Helper()
	at := l.Valid()
	step(t, p, store, Entry{l, at, l.known[at:]})
}

// decode computes one more token after another.
func decode(t testing.TB, p *Pool, store *tagStore, l *Lease, more ...int32) {
	t.Helper()
	for _, token := range more {
		step(t, p, store, Entry{l, l.Valid(), []int32{token}})
	}
}
