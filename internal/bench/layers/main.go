// Command layers measures whole layers and whole models of true shapes on synthetic
// weights: decoding at several contexts, a prompt of 512 tokens, batches of
// sequences, and GLM-5.3's indexer up to a million positions.
//
//	go run ./internal/bench/layers -shape flash -layers 3 -weights bf16
//	go run ./internal/bench/layers -shape flash -layers 47 -weights int4 -plots DIR -json FILE
//	go run ./internal/bench/layers -shape glm53 -weights int4 -cases indexer
//
// For each case it prints the median time, what must be read and computed at least,
// and their shares of what memory gave when it was only read and the processor when
// it only multiplied, measured beside it. Bytes of routed experts are those of the
// distinct experts that the rows chose. The whole model has its vocabulary and its
// dense first layer; -layers 1 is one sparse layer without a vocabulary to speak of.
//
// KV pages are filled with random keys instead of a computed prompt; a step does the
// same over either. Measured results are in RESULT.md beside this file.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/bench/machine"
	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
)

// report is the JSON output.
type report struct {
	Shape, Weights, KV string
	Layers, Threads    int
	Go, System, Kernel string
	WeightBytes        int
	LoadSeconds        float64
	Results            []result
	Batches            []batchShare `json:",omitempty"`
	Indexer            []indexCost  `json:",omitempty"`
}

type options struct {
	shape, weights, kv string
	layers, threads    int
	cases              []string
	rounds             int
	secs               float64
	batchContext       int
	most               int
	out, plots         string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("layers: ")
	var o options
	flag.StringVar(&o.shape, "shape", "flash", "flash (GLM-4.7-Flash) or glm53 (GLM-5.3)")
	flag.IntVar(&o.layers, "layers", 1, "layers; 1 is a sparse one alone, more begin with the dense ones and have the whole vocabulary")
	flag.StringVar(&o.weights, "weights", "bf16", "f32, bf16, fp8, int8 or int4")
	flag.StringVar(&o.kv, "kv", "f32", "format of KV pages: f32 or bf16")
	flag.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "threads")
	cases := flag.String("cases", "decode,prefill,batch", "which of decode, prefill, batch, indexer")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each case is measured, in turn")
	flag.Float64Var(&o.secs, "secs", 1, "seconds per case and round")
	flag.IntVar(&o.batchContext, "batch-context", 544, "context of batched sequences")
	flag.IntVar(&o.most, "most", 1<<20, "largest context of the indexer's cases")
	flag.StringVar(&o.out, "json", "", "write the results to this file")
	flag.StringVar(&o.plots, "plots", "", "draw charts into this directory")
	flag.Parse()
	o.cases = strings.Split(*cases, ",")
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

// config returns the model to be made.
func (o options) config() (string, error) {
	dense, words := 0, 1024
	switch o.shape {
	case "flash":
		if o.layers > 1 {
			dense, words = 1, 154880
		}
		return synthetic.Flash(o.layers, dense, words), nil
	case "glm53":
		if o.layers > 1 {
			dense, words = min(3, o.layers), 154880
		}
		return synthetic.GLM53(o.layers, dense, words), nil
	}
	return "", fmt.Errorf("shape %q: want flash or glm53", o.shape)
}

func run(o options) (err error) {
	config, err := o.config()
	if err != nil {
		return err
	}
	kv := map[string]backend.KVFormat{"f32": backend.KVF32, "bf16": backend.KVBF16}[o.kv]
	positions, err := o.positions()
	if err != nil {
		return err
	}
	meter, err := machine.NewMeter(o.threads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, meter.Close()) }()
	m, err := openModel(config, synthetic.Format(o.weights), kv, o.threads, positions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()

	r := report{
		Shape: o.shape, Weights: o.weights, KV: o.kv, Layers: o.layers, Threads: o.threads,
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Kernel: m.b.Name(),
		WeightBytes: m.b.Memory(), LoadSeconds: m.load.Seconds(),
	}
	fmt.Printf("%s, %d layers of %s, %s, KV %s, %d threads; %.2f GB of weights made in %.1f s\n",
		r.Kernel, o.layers, o.shape, o.weights, o.kv, o.threads, float64(r.WeightBytes)/1e9, r.LoadSeconds)
	for _, c := range o.cases {
		if err := r.measure(c, o, m, meter); err != nil {
			return err
		}
	}
	if o.out != "" {
		data, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.out, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.plots != "" {
		return r.plot(o.plots)
	}
	return nil
}

// measure runs one kind of cases.
func (r *report) measure(kind string, o options, m *model, meter *machine.Meter) error {
	var cases []*testCase
	switch kind {
	case "decode":
		for _, context := range decodeContexts {
			cases = append(cases, &testCase{name: fmt.Sprintf("decode at %d", context), batch: 1, rows: 1, context: context, program: m.Program})
		}
	case "prefill":
		cases = append(cases, &testCase{name: fmt.Sprintf("prompt of %d", maxRows), batch: 1, rows: maxRows, context: maxRows, program: m.Program})
	case "batch":
		for _, batch := range batchSizes {
			cases = append(cases, &testCase{name: fmt.Sprintf("batch of %d at %d", batch, o.batchContext), batch: batch, rows: 1, context: o.batchContext, program: m.Program})
		}
	case "indexer":
		var err error
		if cases, err = m.indexerCases(o.most); err != nil {
			return err
		}
	default:
		return fmt.Errorf("cases %q: want decode, prefill, batch or indexer", kind)
	}
	results, err := m.measure(meter, cases, o.rounds, o.secs)
	if err != nil {
		return err
	}
	r.Results = append(r.Results, results...)
	switch kind {
	case "batch":
		r.Batches = batchShares(results)
	case "indexer":
		r.Indexer = indexCosts(results)
	}
	return nil
}

var (
	decodeContexts = []int{64, 544, 2064}
	batchSizes     = []int{1, 2, 4, 8, 16}
)

// positions returns how many positions the chosen cases need.
func (o options) positions() (n int, err error) {
	pages := func(context int) int { return (context + pageSize - 1) / pageSize * pageSize }
	for _, c := range o.cases {
		switch c {
		case "decode":
			n = max(n, pages(decodeContexts[len(decodeContexts)-1]))
		case "prefill":
			n = max(n, maxRows)
		case "batch":
			n = max(n, maxBatch*pages(o.batchContext))
		case "indexer":
			n = max(n, pages(o.most))
		default:
			return 0, fmt.Errorf("cases %q: want decode, prefill, batch or indexer", c)
		}
	}
	return n, nil
}
