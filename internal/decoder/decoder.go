// Package decoder builds the forward graph of each model family, once, over the
// device contract of package backend.
//
// # Graphs
//
// [Load] reads a checkpoint's tensors into a backend and returns a [Model],
// whose Program is the family's graph:
//
//	GLM-5 to 5.3      embed; per layer MLA, indexer or carried selection, o_proj, MLP or MoE; norm, head, sample
//	GLM-4.7-Flash     the same without an indexer
//	GLM-4.5 to 4.7    the same with grouped-query attention
//
// A layer with an indexer selects keys; the layers after it that have none reuse
// that selection for the same row (IndexShare, arXiv 2603.12201).
//
// # Caveats
//
// The Program names buffers of the backend it was loaded into and is of no use to
// another. The checkpoint must stay open as long as the backend.
package decoder

import (
	"fmt"
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// Options sizes a model's scratch.
type Options struct {
	Rows int // most rows of a step
	Outs int // most rows whose logits are wanted in a step

	// Valid is the number of ids the tokenizer knows; the padded rest of the
	// vocabulary is never sampled. 0: all of it.
	Valid int

	// Trace keeps every layer's selection and plan apart, to be read after a
	// step; otherwise layers share them.
	Trace bool

	// Expand lets rows that share their keys expand them, which makes long prompts
	// faster and holds the laws of row invariance only up to rounding.
	Expand bool

	// OnWeight, when set, is called after each weight with its stored bytes; an
	// error ends Load with it.
	OnWeight func(bytes int) error

	// Tensor, when set, is asked for tensors in place of the checkpoint, by a
	// caller whose backend has some weights from elsewhere and needs their shapes
	// only.
	Tensor func(name string) (checkpoint.Tensor, error)
}

// Model is a forward graph with its weights in a backend.
type Model struct {
	Program backend.Program
	Planes  []int // elements per position of each KV plane, for a PageSpec

	Final  backend.Buffer // [Rows, hidden], after the final norm
	Logits backend.Buffer // [Outs, vocab]

	// With Options.Trace, by layer; zero where a layer has none of its own.
	Selections []backend.Selection
	Plans      []backend.Plan
}

// Load reads the tensors of a checkpoint that the graph uses and builds the graph.
// A family or value that cannot run is a *checkpoint.UnsupportedError.
func Load(b backend.Backend, ck *checkpoint.Checkpoint, o Options) (*Model, error) {
	if err := ck.Config.Runnable(); err != nil {
		return nil, err
	}
	c := &ck.Config
	m := &Model{
		Selections: make([]backend.Selection, c.Layers),
		Plans:      make([]backend.Plan, c.Layers),
	}
	if o.Tensor == nil {
		o.Tensor = ck.Tensor
	}
	g := &builder{b: b, c: c, o: o, m: m}
	g.build()
	if g.err != nil {
		return nil, fmt.Errorf("decoder: %w", g.err)
	}
	return m, nil
}

// builder appends operations; the first error sticks and makes the rest void.
type builder struct {
	b   backend.Backend
	c   *checkpoint.Config
	o   Options
	m   *Model
	err error

	h, x, out backend.Buffer // hidden, normed, attention output

	sel   backend.Selection // the selection carried to the next shared layer
	plan  backend.Plan      // shared by the layers without Trace
	proj  projections
	index indexBuffers
}

func (g *builder) build() {
	c := g.c
	g.h = g.buffer(c.Hidden)
	g.x = g.buffer(c.Hidden)
	g.add(&backend.Embed{Table: g.weight("model.embed_tokens.weight"), Dst: g.h})
	for i := range c.Layers {
		if c.MLA() {
			g.mla(i)
		} else {
			g.gqa(i)
		}
		if c.SparseLayer(i) {
			g.moe(i)
		} else {
			g.mlp(i)
		}
	}
	g.head()
}

func (g *builder) head() {
	valid := g.o.Valid
	if valid == 0 {
		valid = g.c.Vocab
	}
	g.m.Final = g.buffer(g.c.Hidden)
	g.m.Logits = g.rows(g.o.Outs, g.c.Vocab)
	g.add(
		&backend.FinalNorm{H: g.h, Norm: g.weight("model.norm.weight"), Eps: float32(g.c.RMSEps), Dst: g.m.Final},
		&backend.Logits{N: g.m.Final, Head: g.weight("lm_head.weight"), Valid: valid, Dst: g.m.Logits},
		&backend.AdjustLogits{L: g.m.Logits},
		&backend.Sample{L: g.m.Logits},
	)
}

func (g *builder) add(ops ...backend.Op) { g.m.Program = append(g.m.Program, ops...) }

// plane adds a KV plane of the given width and returns its number.
func (g *builder) plane(width int) int {
	g.m.Planes = append(g.m.Planes, width)
	return len(g.m.Planes) - 1
}

func (g *builder) buffer(cols int) backend.Buffer { return g.rows(g.o.Rows, cols) }

func (g *builder) rows(rows, cols int) backend.Buffer {
	if g.err != nil {
		return 0
	}
	var h backend.Buffer
	h, g.err = g.b.NewBuffer(rows, cols)
	return h
}

func (g *builder) selection(layer int) {
	if g.sel != 0 && !g.o.Trace || g.err != nil {
		return
	}
	g.sel, g.err = g.b.NewSelection(g.o.Rows, g.topK())
	if g.o.Trace {
		g.m.Selections[layer] = g.sel
	}
}

func (g *builder) newPlan(layer int) backend.Plan {
	if g.plan != 0 && !g.o.Trace || g.err != nil {
		return g.plan
	}
	g.plan, g.err = g.b.NewPlan(g.o.Rows, g.c.TopK)
	if g.o.Trace {
		g.m.Plans[layer] = g.plan
	}
	return g.plan
}

// topK is how many keys a row can select: no more than there can be.
func (g *builder) topK() int { return min(g.c.Index.TopK, g.c.MaxPositions) }

// perRoot returns 1/sqrt(n), the scale of attention over heads of n elements.
func perRoot(n int) float32 { return float32(1 / math.Sqrt(float64(n))) }
