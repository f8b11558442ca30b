// Command isolation measures what isolation costs while a model runs: the
// share of a decode step that goes into the checks of every page, and how fast
// freed pages are zeroed.
//
//	go run ./internal/bench/isolation -model DIR
//
// The checks are all that package kvcache does for a step: owner, generation
// and mark of every page at its begin, the binding of the upload, the echo of
// the results. They are timed in a pool of their own, with the lengths of the
// model's steps and without a model. What the bookkeeping costs at the true
// sizes is measured by the benchmarks of package kvcache; all results are in
// kvcache/RESULT.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/kvcache"
)

const prompt, output = 64, 192 // tokens of a request

func main() {
	log.SetFlags(0)
	dir := flag.String("model", "internal/golden/testdata/glm52", "checkpoint whose decode step is the measure")
	wanted := flag.Int("tokens", 2000, "tokens to decode")
	threads := flag.Int("threads", 0, "threads of the model; 0: all")
	flag.Parse()
	step, n, err := decodeStep(*dir, *threads, *wanted)
	if err != nil {
		log.Fatal(err)
	}
	checks, err := bookkeeping()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("decode step   %v, mean of %d, one sequence of %d to %d tokens\n", step, n, prompt, prompt+output)
	fmt.Printf("its checks    %v, %.3f %%\n", checks, 100*float64(checks)/float64(step))
	for _, m := range []struct {
		name   string
		planes []int
	}{
		{"tiny model", []int{80, 32, 80, 32, 80, 80, 32, 80, 80, 32}},
		{"GLM-5.2", planes(78, 576, 128)},
	} {
		rate, bytes, err := scrub(m.planes)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("scrub         %.1f GB/s on one thread, pages of %d bytes (%s)\n", rate/1e9, bytes, m.name)
	}
}

// decodeStep returns the mean time from token to token, prompts left out, and
// of how many steps.
func decodeStep(dir string, threads, wanted int) (time.Duration, int, error) {
	ctx := context.Background()
	m, err := glm.Open(ctx, dir, glm.Config{Threads: threads})
	if err != nil {
		return 0, 0, err
	}
	defer m.Close()
	p, err := m.NewKVPool(glm.PoolConfig{Tokens: 4096, AllowSmallerPool: true})
	if err != nil {
		return 0, 0, err
	}
	var elapsed time.Duration
	steps := 0
	ids := make([]int32, prompt)
	for i := int32(0); steps < wanted; i++ {
		ids[0], ids[1] = i%100, i/100
		n := 0
		var first, last time.Time
		for ev, err := range p.Generate(ctx, "", glm.Request{Tokens: ids, MaxTokens: output, Sampling: &glm.Sampling{}}) {
			if err != nil {
				return 0, 0, err
			}
			if _, ok := ev.(glm.Token); ok {
				last = time.Now()
				if n++; n == 1 {
					first = last
				}
			}
		}
		if n > 1 {
			elapsed += last.Sub(first)
			steps += n - 1
		}
	}
	return elapsed / time.Duration(steps), steps, nil
}

// bookkeeping returns the mean time that package kvcache takes for the decode
// steps of such a request.
func bookkeeping() (time.Duration, error) {
	const rounds, pages, pageSize = 100, 129, 32
	p, err := kvcache.New(kvcache.Config{Pages: pages, PageSize: pageSize, Context: prompt + output}, nowhere{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	s, err := p.NewSession("")
	if err != nil {
		return 0, err
	}
	var spent time.Duration
	var memory kvcache.StepMemory
	ids := make([]int32, prompt)
	for round := range int32(rounds) {
		ids[0] = round
		l, err := s.Admit(context.Background(), kvcache.Request{Tokens: ids, MaxTokens: output})
		if err != nil {
			return 0, err
		}
		if err := step(p, &memory, l, 0, ids); err != nil {
			return 0, err
		}
		start := time.Now()
		for i := range output - 1 {
			if err := step(p, &memory, l, prompt+i, []int32{7}); err != nil {
				return 0, err
			}
		}
		spent += time.Since(start)
		l.End(kvcache.CauseLength, nil)
	}
	return spent / (rounds * (output - 1)), nil
}

func step(p *kvcache.Pool, m *kvcache.StepMemory, l *kvcache.Lease, at int, tokens []int32) error {
	st, err := p.BeginIn(m, []kvcache.Entry{{Lease: l, At: at, Tokens: tokens}})
	if err != nil {
		return err
	}
	for _, r := range st.Refused() {
		return r.Err
	}
	a := st.Arrays()
	if err := st.Check(a); err != nil {
		st.Abort()
		return err
	}
	return st.Complete([]kvcache.Result{{Session: a.Session[0], Tag: a.Tag[0], Epoch: st.Epoch(), Rows: len(tokens)}})[0]
}

// scrub returns bytes per second and the bytes of a page.
func scrub(planes []int) (rate float64, bytes int, err error) {
	spec := backend.PageSpec{Pages: 2, PageSize: 32, Format: backend.KVF32, Planes: planes}
	spec.Pages = max(256<<20/spec.PageBytes(), 2) // more than caches hold
	d := cpu.Open(1)
	defer d.Close()
	p, err := d.NewPages(spec)
	if err != nil {
		return 0, 0, err
	}
	defer p.Close()
	all := make([]int, spec.Pages)
	for i := range all {
		all[i] = i
	}
	p.Scrub(all...) // faults the memory in
	start, rounds := time.Now(), 0
	for time.Since(start) < time.Second {
		p.Scrub(all...)
		rounds++
	}
	return float64(rounds*spec.Pages*spec.PageBytes()) / time.Since(start).Seconds(), spec.PageBytes(), nil
}

func planes(layers, latent, index int) (out []int) {
	for range layers {
		out = append(out, latent, index)
	}
	return out
}

// nowhere is memory that is not there.
type nowhere struct{}

func (nowhere) SetTag(int, uint64)              { /* no sidecar */ }
func (nowhere) Scrub(...int)                    { /* no bytes */ }
func (nowhere) Export(dst []byte, _ int) []byte { return dst }
func (nowhere) Import(int, []byte) error        { return nil }
func (nowhere) Sum(int) uint64                  { return 0 }
