package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
)

// heldOut are tokens that the model was not trained on.
type heldOut struct {
	LatentEps float64 `json:"latent_eps"`
	Window    int     `json:"window"` // tokens that are read together; each window begins anew
	ids       []int32
}

func readHeldOut(dir string) (*heldOut, error) {
	var h heldOut
	text, err := os.ReadFile(filepath.Join(dir, "goldens.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("goldens.json: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "heldout.u16"))
	if err != nil {
		return nil, err
	}
	ids := make([]uint16, len(data)/2)
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, ids); err != nil {
		return nil, fmt.Errorf("heldout.u16: %w", err)
	}
	if h.Window < 2 || len(ids) < h.Window {
		return nil, fmt.Errorf("%d held-out tokens in windows of %d", len(ids), h.Window)
	}
	for _, id := range ids {
		h.ids = append(h.ids, int32(id))
	}
	return &h, nil
}

// measurement is how a model predicts the held-out tokens.
type measurement struct {
	loss []float64 // -ln p(next token) at each position
	top  []int32   // the most likely next token there
}

func (m *measurement) perplexity() float64 {
	mean, _ := meanAndError(m.loss)
	return math.Exp(mean)
}

// ratio returns the perplexity over another's, and its standard error.
func (m *measurement) ratio(o *measurement) (r, err float64) {
	more := make([]float64, len(m.loss))
	for i := range more {
		more[i] = m.loss[i] - o.loss[i]
	}
	mean, err := meanAndError(more)
	return math.Exp(mean), math.Exp(mean) * err
}

// meanAndError returns the mean of values and its standard error.
func meanAndError(x []float64) (mean, err float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		err += (v - mean) * (v - mean) / n
	}
	return mean, math.Sqrt(err / n)
}

// agrees counts the positions at which both find the same token most likely.
func (m *measurement) agrees(o *measurement) (n int) {
	for i := range m.top {
		if m.top[i] == o.top[i] {
			n++
		}
	}
	return n
}

const pageSize = 64

// measure lets a checkpoint predict, with its weights in a format.
func measure(ctx context.Context, fsys fs.FS, held *heldOut, f cpu.Format, threads int) (m *measurement, err error) {
	ck, err := checkpoint.OpenFS(fsys)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	ck.Config.LatentEps = held.LatentEps
	b := cpu.Open(threads).Packer(func(name string) cpu.Format { return cpu.FormatOf(name, f) })
	defer b.Close()
	graph, err := decoder.Load(b, ck, decoder.Options{Rows: held.Window, Outs: held.Window})
	if err != nil {
		return nil, err
	}
	pages, err := b.NewPages(backend.PageSpec{
		Pages: (held.Window + pageSize - 1) / pageSize, PageSize: pageSize, Format: backend.KVF32, Planes: graph.Planes,
	})
	if err != nil {
		return nil, err
	}
	defer pages.Close()
	m = &measurement{}
	for window := range slices.Chunk(held.ids, held.Window) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := predict(b, graph, pages, window)
		if err != nil {
			return nil, err
		}
		for row, h := range r.Health {
			if h != 0 {
				return nil, fmt.Errorf("row %d with weights %s is %s", row, f, h)
			}
		}
		vocab := ck.Config.Vocab
		logits := b.Read(graph.Logits, len(window))
		for i, next := range window[1:] {
			m.add(logits[i*vocab:(i+1)*vocab], next)
		}
	}
	return m, nil
}

// predict computes the logits of every row of a window.
func predict(b backend.Backend, graph *decoder.Model, pages backend.Pages, ids []int32) (*backend.Result, error) {
	n := int32(len(ids))
	s := &backend.Step{
		IDs: ids, QStart: []int32{0, n}, KVLen: []int32{n}, Session: []uint64{1}, Tag: []uint64{0},
		Stride: pages.Spec().Pages, PageTag: make([]uint64, pages.Spec().Pages),
	}
	for p := range s.Stride {
		s.Pages = append(s.Pages, int32(p))
	}
	for i := range n {
		s.Seq, s.Pos, s.Out = append(s.Seq, 0), append(s.Pos, i), append(s.Out, i)
	}
	if err := b.Start(graph.Program, s, pages); err != nil {
		return nil, err
	}
	return b.Wait()
}

// add notes how well one row's logits predict a token.
func (m *measurement) add(logits []float32, next int32) {
	best, most := int32(0), float64(logits[0])
	for i, l := range logits {
		if float64(l) > most {
			best, most = int32(i), float64(l)
		}
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - most)
	}
	m.loss = append(m.loss, math.Log(sum)+most-float64(logits[next]))
	m.top = append(m.top, best)
}
