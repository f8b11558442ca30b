package main

import (
	"errors"
	"fmt"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// batchShare compares a batch with one sequence: the most that sharing weights could
// give is Batch * bytes(1) / bytes(Batch).
type batchShare struct {
	Batch   int
	Speedup float64 // in tokens per second over a batch of one
	Bound   float64
	Share   float64 // Speedup / Bound
}

func batchShares(results []result) (list []batchShare) {
	one := results[0]
	for _, r := range results[1:] {
		s := batchShare{Batch: r.Batch, Speedup: r.Tokens / one.Tokens}
		s.Bound = float64(r.Batch) * (one.WeightBytes + one.KeyBytes) / (r.WeightBytes + r.KeyBytes)
		s.Share = s.Speedup / s.Bound
		fmt.Printf("batch of %2d: %.2f times one sequence's tokens per second, bound %.2f: %.0f %%\n", s.Batch, s.Speedup, s.Bound, 100*s.Share)
		list = append(list, s)
	}
	return list
}

// indexContexts are where a layer with an indexer is measured.
var indexContexts = []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20}

var errNoIndexer = errors.New("the indexer's cases need -shape glm53")

// indexerCases measure, at each context, the whole program and then its index
// selections alone, whose time is linear in the context.
func (m *model) indexerCases(most int) (cases []*testCase, err error) {
	var selections backend.Program
	for _, op := range m.Program {
		if s, ok := op.(*backend.IndexSelect); ok {
			selections = append(selections, s)
		}
	}
	if selections == nil {
		return nil, errNoIndexer
	}
	for _, context := range indexContexts {
		if context > most {
			break
		}
		cases = append(cases,
			&testCase{name: fmt.Sprintf("layer at %d", context), batch: 1, rows: 1, context: context, program: m.Program},
			&testCase{name: fmt.Sprintf("indexer at %d", context), batch: 1, rows: 1, context: context, program: selections, before: m.Program})
	}
	return cases, nil
}

// indexCost separates the indexer's scores and choice from the rest of a layer.
type indexCost struct {
	Context int
	Layer   float64 // seconds
	Select  float64 // seconds of it for scoring and choosing keys
	Growth  float64 // of the rest over that at the first context; 0: none
}

func indexCosts(results []result) (list []indexCost) {
	for i := 0; i < len(results); i += 2 {
		c := indexCost{Context: results[i].Context, Layer: results[i].Seconds, Select: results[i+1].Seconds}
		if i > 0 {
			c.Growth = (c.Layer-c.Select)/(list[0].Layer-list[0].Select) - 1
		}
		fmt.Printf("context %7d: layer %8.2f ms, of which scores and choice %8.2f ms; the rest %8.2f ms, %+.0f %% over the first\n",
			c.Context, c.Layer*1e3, c.Select*1e3, (c.Layer-c.Select)*1e3, 100*c.Growth)
		list = append(list, c)
	}
	return list
}
