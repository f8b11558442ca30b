package kvcache_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/kvcache"
)

// What safety costs; the results are in RESULT.md.

// go test -bench Share -model DIR measures against another model than the
// smallest one there is.
var costModel = flag.String("model", filepath.Join("..", "internal", "golden", "testdata", "glm52"), "checkpoint whose decode step is the measure")

// BenchmarkShareOfADecodeStep times tokens of a model, and then the bookkeeping
// of the same steps alone: Begin, Check and Complete, which check owner,
// generation, mark and binding of every page.
func BenchmarkShareOfADecodeStep(b *testing.B) {
	const prompt, output = 64, 192
	defer kvcache.CheckEveryEvent(kvcache.CheckEveryEvent(false))
	m, err := glm.Open(b.Context(), *costModel, glm.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	p, err := m.NewKVPool(glm.PoolConfig{Tokens: 4096, AllowSmallerPool: true})
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]int32, prompt)
	tokens, first := 0, time.Time{}
	var elapsed time.Duration
	for i := int32(0); b.Loop(); i++ {
		ids[0] = i % 100
		n := 0
		for ev, err := range p.Generate(b.Context(), "", glm.Request{Tokens: ids, MaxTokens: output, Sampling: &glm.Sampling{}}) {
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := ev.(glm.Token); !ok {
				continue
			}
			if n++; n == 1 { // the prompt is not part of it
				first = time.Now()
			} else {
				tokens++
			}
		}
		elapsed += time.Since(first)
	}
	if tokens < 1000 {
		b.Logf("%d tokens only", tokens)
	}
	step := elapsed / time.Duration(max(tokens, 1))
	checks := bookkeeping(b, prompt, output)
	b.ReportMetric(float64(step.Nanoseconds()), "ns/step")
	b.ReportMetric(float64(checks.Nanoseconds()), "ns/checks")
	b.ReportMetric(100*float64(checks)/float64(step), "%")
}

// bookkeeping returns the time that a decode step of one sequence spends here.
func bookkeeping(b *testing.B, prompt, output int) time.Duration {
	b.Helper()
	const rounds = 100
	p, err := kvcache.New(kvcache.Config{Pages: 129, PageSize: 32, Context: 4096}, newMemory(129, 32))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	s, err := p.NewSession("")
	if err != nil {
		b.Fatal(err)
	}
	var spent time.Duration
	for round := range int32(rounds) {
		ids := make([]int32, prompt)
		ids[0] = round
		l, err := s.Admit(context.Background(), kvcache.Request{Tokens: ids, MaxTokens: output})
		if err != nil {
			b.Fatal(err)
		}
		run := func(at int, tokens []int32) {
			st, err := p.Begin([]kvcache.Entry{{Lease: l, At: at, Tokens: tokens}})
			if err != nil || len(st.Refused()) > 0 {
				b.Fatal(err, st.Refused())
			}
			a := st.Arrays()
			if err := st.Check(a); err != nil {
				b.Fatal(err)
			}
			for _, err := range st.Complete([]kvcache.Result{{Session: a.Session[0], Tag: a.Tag[0], Epoch: st.Epoch(), Rows: len(tokens)}}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		run(0, ids)
		start := time.Now()
		for i := range output - 1 {
			run(prompt+i, []int32{7})
		}
		spent += time.Since(start)
		l.End(kvcache.CauseLength, nil)
	}
	return spent / time.Duration(rounds*(output-1))
}

// BenchmarkScrub zeroes pages of the CPU backend, of the tiny model's size and
// of GLM-5.2's: 78 layers of 576 numbers each, and 128 for the indexer.
func BenchmarkScrub(b *testing.B) {
	for _, c := range []struct {
		name   string
		pages  int
		planes []int
	}{
		{"tiny", 256, []int{80, 32, 80, 32, 80, 80, 32, 80, 80, 32}},
		{"GLM-5.2", 16, planes(78, 576, 128)},
	} {
		b.Run(c.name, func(b *testing.B) {
			spec := backend.PageSpec{Pages: c.pages, PageSize: 32, Format: backend.KVF32, Planes: c.planes}
			d := cpu.Open(1)
			defer d.Close()
			p, err := d.NewPages(spec)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			all := make([]int, c.pages)
			for i := range all {
				all[i] = i
			}
			p.Scrub(all...) // faults the memory in
			b.SetBytes(int64(spec.PageBytes() * c.pages))
			for b.Loop() {
				p.Scrub(all...)
			}
		})
	}
}

func planes(layers, latent, index int) (out []int) {
	for range layers {
		out = append(out, latent, index)
	}
	return out
}
