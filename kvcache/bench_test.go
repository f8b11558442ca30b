package kvcache

import "testing"

// nullStore has no memory: what is measured is bookkeeping.
type nullStore struct{}

func (nullStore) SetTag(int, uint64)              { /* no sidecar */ }
func (nullStore) Scrub(...int)                    { /* no bytes */ }
func (nullStore) Export(dst []byte, _ int) []byte { return dst }
func (nullStore) Import(int, []byte) error        { return nil }
func (nullStore) Sum(int) uint64                  { return 0 }

// bigPool has the true sizes: 2,040,000 tokens in pages of 64.
func bigPool(b *testing.B) (*Pool, *Session) {
	b.Helper()
	checkEveryEvent = false // its cost grows with the pool
	p, err := New(Config{Pages: 2_040_000/64 + 1, PageSize: 64, Context: 1_048_576}, nullStore{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close(); checkEveryEvent = true })
	return p, session(b, p, "a")
}

// fillUp admits a prompt and computes all of it.
func fillUp(b *testing.B, p *Pool, s *Session, prompt []int32) *Lease {
	b.Helper()
	l := admitted(b, s, prompt, 64)
	for at := l.Valid(); at < len(prompt); at = l.Valid() {
		st, err := p.Begin([]Entry{{l, at, prompt[at:min(at+4096, len(prompt))]}})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range st.Complete(results(st)) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return l
}

// A decode step of eight short sequences: Begin, Check, Complete.
func BenchmarkStepShort(b *testing.B) { benchmarkStep(b, 8, 200) }

// A decode step of one sequence of a million tokens.
func BenchmarkStepMillion(b *testing.B) { benchmarkStep(b, 1, 1_000_000) }

func benchmarkStep(b *testing.B, sequences, length int) {
	p, s := bigPool(b)
	var entries []Entry
	for i := range sequences {
		l := fillUp(b, p, s, tokens(i*10_000, length))
		entries = append(entries, Entry{l, length, []int32{1}})
	}
	var memory StepMemory
	for b.Loop() {
		st, err := p.BeginIn(&memory, entries)
		if err != nil || len(st.Refused()) > 0 {
			b.Fatal(err, st.Refused())
		}
		if err := st.Check(st.Arrays()); err != nil {
			b.Fatal(err)
		}
		st.Abort()
	}
	for _, e := range entries {
		e.Lease.End(CauseStop, nil)
	}
}

// A million tokens, computed in chunks of 4096 rows.
func BenchmarkFillMillion(b *testing.B) {
	p, s := bigPool(b)
	prompt := tokens(0, 1_000_000)
	i := int32(0)
	for b.Loop() {
		prompt[0] = i
		i++
		fillUp(b, p, s, prompt).End(CauseStop, nil)
	}
	b.ReportMetric(float64(len(prompt)/64)*float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}

// The lookup of a million tokens that are all there.
func BenchmarkHitMillion(b *testing.B) {
	p, s := bigPool(b)
	prompt := tokens(0, 1_000_000)
	fillUp(b, p, s, prompt).End(CauseStop, nil)
	for b.Loop() {
		l := admitted(b, s, prompt, 64)
		if l.Reused() != 1_000_000-64 {
			b.Fatal(l.Reused())
		}
		l.End(CauseStop, nil)
	}
}

// Small requests, one after another, in a pool full of other people's resting
// pages: each admission evicts, each page is scrubbed before it is leased.
func BenchmarkRequests(b *testing.B) {
	p, s := bigPool(b)
	other := session(b, p, "b")
	for i := range 2 {
		fillUp(b, p, other, tokens(i*1_000_000, 1_000_000)).End(CauseStop, nil)
	}
	prompt := tokens(0, 256)
	i := int32(0)
	for b.Loop() {
		prompt[0] = i
		i++
		fillUp(b, p, s, prompt).End(CauseStop, nil)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
