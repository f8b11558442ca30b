package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/bench/plot"
)

// plot draws what was measured.
func (r *report) plot(dir string) error {
	name := fmt.Sprintf("%s-%d-%s", r.Shape, r.Layers, r.Weights)
	what := fmt.Sprintf("%s, %d layers, %s", r.Shape, r.Layers, r.Weights)
	var context, batch, bound plot.Series
	context.Name, batch.Name, bound.Name = "measured", "measured", "bound by bytes"
	for _, c := range r.Results {
		if strings.HasPrefix(c.Case, "decode") {
			context.X, context.Y = append(context.X, float64(c.Context)), append(context.Y, c.Tokens)
		}
		if strings.HasPrefix(c.Case, "batch") {
			batch.X, batch.Y = append(batch.X, float64(c.Batch)), append(batch.Y, c.Tokens)
		}
	}
	if len(batch.X) > 0 {
		bound.X, bound.Y = []float64{1}, []float64{batch.Y[0]}
	}
	for _, b := range r.Batches {
		bound.X, bound.Y = append(bound.X, float64(b.Batch)), append(bound.Y, batch.Y[0]*b.Bound)
	}
	var layer, choice, rest plot.Series
	layer.Name, choice.Name, rest.Name = "layer", "scores and choice", "the rest"
	for _, c := range r.Indexer {
		x := float64(c.Context)
		layer.X, layer.Y = append(layer.X, x), append(layer.Y, c.Layer*1e3)
		choice.X, choice.Y = append(choice.X, x), append(choice.Y, c.Select*1e3)
		rest.X, rest.Y = append(rest.X, x), append(rest.Y, (c.Layer-c.Select)*1e3)
	}
	for _, c := range []struct {
		file  string
		chart plot.Chart
	}{
		{"context", plot.Chart{Title: "Decoding: " + what, X: "context, tokens", Y: "tokens/s", LogX: true, Series: []plot.Series{context}}},
		{"batch", plot.Chart{Title: "Batches: " + what, X: "sequences", Y: "tokens/s", LogX: true, Series: []plot.Series{batch, bound}}},
		{"indexer", plot.Chart{Title: "Indexer: " + what, X: "context, tokens", Y: "ms", LogX: true, Series: []plot.Series{layer, choice, rest}}},
	} {
		if len(c.chart.Series[0].X) == 0 {
			continue
		}
		f, err := os.Create(filepath.Join(dir, name+"-"+c.file+".png"))
		if err != nil {
			return err
		}
		if err := errors.Join(c.chart.Write(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
