// Command inspect shows the engine at work on a golden checkpoint: what the model
// holds and costs, and its logits beside those of the public reference.
//
//	go run ./internal/golden/inspect [name]
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("inspect: ")
	flag.Usage = func() {
		names, _ := golden.Names()
		fmt.Fprintf(os.Stderr, "usage: inspect [name]\nnames: %s\n", strings.Join(names, " "))
	}
	flag.Parse()
	name := "glm52"
	if flag.NArg() > 0 {
		name = flag.Arg(0)
	}
	if err := run(name); err != nil {
		log.Fatal(err)
	}
}

func run(name string) error {
	g, err := golden.Load(name)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n\n", g.Name, g.About)
	inspection, err := glm.Inspect(g.Dir)
	if err != nil {
		return err
	}
	fmt.Println(inspection)

	logits, took, err := forward(g, g.Prompts[0].IDs)
	if err != nil {
		return err
	}
	fmt.Printf("fed %d ids in %v\n\n", len(g.Prompts[0].IDs), took.Round(time.Millisecond))
	compare(g, logits)
	return nil
}

// forward computes the logits of every position in one step.
func forward(g *golden.Golden, ids []int32) (logits [][]float32, took time.Duration, err error) {
	ck, err := checkpoint.Open(g.Dir)
	if err != nil {
		return nil, 0, err
	}
	defer ck.Close()
	ck.Config.LatentEps = g.LatentEps // the reference's own
	b := cpu.Open(0)
	defer b.Close()
	n := len(ids)
	m, err := decoder.Load(b, ck, decoder.Options{Rows: n, Outs: n})
	if err != nil {
		return nil, 0, err
	}
	pages, err := b.NewPages(backend.PageSpec{Pages: 1, PageSize: n, Format: backend.KVF32, Planes: m.Planes})
	if err != nil {
		return nil, 0, err
	}
	defer pages.Close()

	s := &backend.Step{
		IDs: ids, Seq: make([]int32, n), QStart: []int32{0, int32(n)}, KVLen: []int32{int32(n)},
		Session: []uint64{0}, Tag: []uint64{0}, Pages: []int32{0}, PageTag: []uint64{0}, Stride: 1,
	}
	for i := range n {
		s.Pos, s.Out = append(s.Pos, int32(i)), append(s.Out, int32(i))
	}
	start := time.Now()
	if err := b.Start(m.Program, s, pages); err != nil {
		return nil, 0, err
	}
	if _, err := b.Wait(); err != nil {
		return nil, 0, err
	}
	return slices.Collect(slices.Chunk(b.Read(m.Logits, n), g.VocabSize)), time.Since(start), nil
}

// compare prints the best ids of some positions and the largest difference of all.
func compare(g *golden.Golden, have [][]float32) {
	want := g.Prompts[0].Logits
	fmt.Println("position   id    logit here   reference   difference")
	for _, pos := range []int{0, len(have) / 2, len(have) - 1} {
		for _, id := range best(have[pos], 3) {
			fmt.Printf("%8d %4d  %12.6f %11.6f  %+.1e\n", pos, id, have[pos][id], want[pos][id], have[pos][id]-want[pos][id])
		}
	}
	worst := 0.0
	for pos := range have {
		for id, l := range have[pos] {
			worst = max(worst, math.Abs(float64(l-want[pos][id])))
		}
	}
	fmt.Printf("\nlargest difference over %d positions x %d ids: %.1e (the reference differs from its own float64 run by %.1e)\n",
		len(have), g.VocabSize, worst, g.Noise)
}

func best(logits []float32, n int) []int {
	ids := make([]int, len(logits))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	return ids[:n]
}
