package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/bench/machine"
	"github.com/cofferdam-ml/cofferdam/internal/bench/plot"
)

// The contexts at whose end decoding is measured, over decodeRows tokens each, and
// the prompt.
var wholeContexts = []int{64, 544, 2064}

const (
	decodeRows = 16
	promptRows = 512
)

// modelRun is what one process of an engine made.
type modelRun struct {
	Engine string
	Load   float64   // seconds until the model could be used
	Decode []float64 // tokens per second at wholeContexts, by the median of tokens
	Prompt float64   // tokens per second of promptRows
	Busy   machine.Busy
}

// modelReport is the JSON output of whole models.
type modelReport struct {
	Layers, Threads, Context int
	Contexts                 []int
	Runs                     []modelRun
	Ratios                   []modelRatio
}

// modelRatio is ours over a rival, by the medians of the runs.
type modelRatio struct {
	Rival  string
	Decode []float64
	Prompt float64
}

// compareModels lets engines take turns, one process at a time.
func (w workshop) compareModels(o options) (*modelReport, error) {
	r := &modelReport{Layers: o.layers, Threads: o.threads, Context: o.context, Contexts: wholeContexts}
	meter, err := machine.NewMeter(o.threads)
	if err != nil {
		return nil, err
	}
	fmt.Printf("reading gives %.1f GB/s, f32 multiply-add %.0f GFLOP/s\n", meter.Read()/1e9, meter.Peak()/1e9)
	if err := meter.Close(); err != nil { // the memory is needed
		return nil, err
	}
	var rivals []string
	for range o.rounds {
		for _, file := range o.files {
			for _, variant := range o.variants {
				for _, l := range []launch{w.ours(o, string(ourFormat[file])), w.theirs(o, variant, file)} {
					run, err := runModel(l)
					if err != nil {
						return r, err
					}
					fmt.Println(run)
					r.Runs = append(r.Runs, run)
					if !strings.HasPrefix(run.Engine, "ours") && !slices.Contains(rivals, run.Engine) {
						rivals = append(rivals, run.Engine)
					}
				}
			}
		}
	}
	for _, rival := range rivals {
		_, file, _ := strings.Cut(rival, " ")
		ours := "ours " + string(ourFormat[file])
		ratio := modelRatio{Rival: rival, Prompt: r.median(ours, prompt) / r.median(rival, prompt)}
		for i := range wholeContexts {
			at := func(m modelRun) float64 { return m.Decode[i] }
			ratio.Decode = append(ratio.Decode, r.median(ours, at)/r.median(rival, at))
		}
		fmt.Printf("%s over %-14s decode at %v: %.2f; prompt of %d: %.2f\n", ours, rival, wholeContexts, ratio.Decode, promptRows, ratio.Prompt)
		r.Ratios = append(r.Ratios, ratio)
	}
	if o.plots != "" {
		return r, r.plot(o.plots)
	}
	return r, nil
}

// plot draws decoding against context, a line an engine.
func (r *modelReport) plot(dir string) error {
	chart := plot.Chart{Title: fmt.Sprintf("GLM-4.7-Flash, %d layers, %d threads", r.Layers, r.Threads), X: "context, tokens", Y: "tokens/s", LogX: true}
	var engines []string
	for _, run := range r.Runs {
		if slices.Contains(engines, run.Engine) {
			continue
		}
		engines = append(engines, run.Engine)
		s := plot.Series{Name: run.Engine}
		for i, context := range r.Contexts {
			s.X = append(s.X, float64(context))
			s.Y = append(s.Y, r.median(run.Engine, func(m modelRun) float64 { return m.Decode[i] }))
		}
		chart.Series = append(chart.Series, s)
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("rivals-%d.png", r.Layers)))
	if err != nil {
		return err
	}
	return errors.Join(chart.Write(f), f.Close())
}

func prompt(m modelRun) float64 { return m.Prompt }

// median returns the median of a figure over the runs of an engine.
func (r *modelReport) median(engine string, figure func(modelRun) float64) float64 {
	var list []float64
	for _, run := range r.Runs {
		if run.Engine == engine {
			list = append(list, figure(run))
		}
	}
	return machine.Median(list)
}

func (m modelRun) String() string {
	return fmt.Sprintf("%-14s loaded in %5.1f s; decode at %v: %.2f tok/s; prompt of %d: %.2f tok/s\n%-14s %v",
		m.Engine, m.Load, wholeContexts, m.Decode, promptRows, m.Prompt, "", m.Busy)
}

// runModel starts an engine, measures it and ends it.
func runModel(l launch) (run modelRun, err error) {
	c, err := l()
	if err != nil {
		return run, err
	}
	run.Engine = c.name
	greeting, err := c.ask("")
	if err != nil {
		return run, err
	}
	if _, err := fmt.Sscan(greeting[1], &run.Load); err != nil {
		return run, fmt.Errorf("%s: greeting %q: %w", c.name, greeting, err)
	}
	watch := machine.Watch(c.pid())
	at := 0
	for i, context := range wholeContexts {
		n := context - decodeRows - at
		if _, err := c.seconds("feed %s", strings.Join(someIDs(n, i+1), " ")); err != nil {
			return run, err
		}
		times, err := c.seconds("decode %s", strings.Join(someIDs(decodeRows, i+10), " "))
		if err != nil {
			return run, err
		}
		run.Decode = append(run.Decode, 1/machine.Median(times))
		at = context
	}
	if _, err := c.ask("clear"); err != nil {
		return run, err
	}
	times, err := c.seconds("feed %s", strings.Join(someIDs(promptRows, 20), " "))
	if err != nil {
		return run, err
	}
	run.Prompt = promptRows / times[0]
	run.Busy = watch.Stop()
	return run, c.stop()
}
