package glm

import (
	"context"
	"errors"
	"strconv"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
)

// Weights in another format than they are stored in: internal/cpu makes blobs and
// computes with them, internal/checkpoint keeps them, and what is here has each
// give to the other. A load builds the graph twice, first over a survey that only
// notes which weights it asks for, then over the backend that has them.

// converted is the CPU backend of a model whose matrices are blobs.
type converted struct {
	*cpu.Backend
	format cpu.Format
	blobs  *checkpoint.Packed // nil until they are there
}

// Name implements backend.Backend. The format is part of it: keys and values that
// were computed with other weights are others.
func (b *converted) Name() string { return b.Backend.Name() + ", weights " + b.format.String() }

// LoadWeight implements backend.Backend. Of a weight that is a blob it needs name
// and shape only.
func (b *converted) LoadWeight(v backend.View) (backend.Weight, error) {
	f := cpu.FormatOf(v.Name, b.format)
	if f == cpu.AsStored {
		return b.Backend.LoadWeight(v)
	}
	return b.LoadPacked(v.Name, v.Rows, v.Cols, f, b.blobs.Blob(v.Name))
}

// LoadKVB implements backend.Backend, likewise.
func (b *converted) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if cpu.FormatOf(v.Name, b.format) == cpu.AsStored {
		return b.Backend.LoadKVB(v, heads, nope, vdim)
	}
	return b.LoadPackedKVB(v.Name, heads, nope, vdim, v.Cols, b.blobs.Blob(v.Name))
}

// Close implements backend.Backend.
func (b *converted) Close() error {
	err := b.Backend.Close()
	if b.blobs != nil {
		err = errors.Join(err, b.blobs.Close())
	}
	return err
}

// survey is a backend for building a graph that never runs. Only the methods that
// a graph is built with are there.
type survey struct {
	backend.Backend
	format cpu.Format
	wanted []wanted
	blobs  []checkpoint.Blob
}

// wanted is a weight that is to be a blob.
type wanted struct {
	name              string
	format            cpu.Format
	heads, nope, vdim int // of kv_b
}

// pack makes the blob, of about slab bytes of the weight at a time.
func (w *wanted) pack(ctx context.Context, b *cpu.Backend, ck *checkpoint.Checkpoint, dst []byte, slab int) error {
	t, err := ck.Tensor(w.name)
	if err != nil {
		return err
	}
	v := decoder.View(t)
	if w.heads > 0 {
		defer ck.Forget(w.name, 0, len(v.Data))
		p, err := cpu.NewKVBPacking(v, w.heads, w.nope, w.vdim)
		if err != nil {
			return err
		}
		return b.Pack(ctx, dst, p)
	}
	// A blob is its rows one after the other, eight by eight, so parts of it are made
	// of parts of the weight, and what was read can go before the rest comes.
	size := len(v.Data) / v.Rows
	step := max(slab/size/slabRows*slabRows, slabRows)
	for r := 0; r < v.Rows; r += step {
		part := rows(v, r, min(r+step, v.Rows))
		p, err := cpu.NewPacking(part, w.format)
		if err != nil {
			return err
		}
		if p.Size() > len(dst) {
			return &cpu.BlobError{Name: w.name, Field: "bytes", Want: strconv.Itoa(p.Size()), Have: strconv.Itoa(len(dst))}
		}
		if err := b.Pack(ctx, dst[:p.Size()], p); err != nil {
			return err
		}
		dst = dst[p.Size():]
		ck.Forget(w.name, r*size, r*size+len(part.Data))
	}
	return nil
}

const (
	// slabBytes is about what is resident of a weight while it is converted. The
	// largest weights, the heads, have gigabytes.
	slabBytes = 64 << 20
	// slabRows divides the rows of a slab: panels have 8, blocks of scales 128.
	slabRows = 128
)

// rows returns rows [lo, hi) of a view; lo is a multiple of slabRows.
func rows(v backend.View, lo, hi int) backend.View {
	size := len(v.Data) / v.Rows
	if s := &v.Scales; s.Rows > 0 {
		every := 1 // rows that share a scale
		if !v.PerRow() {
			every = backend.ScaleBlock
		}
		size := len(s.Data) / s.Rows
		first, last := lo/every, (hi+every-1)/every
		s.Data, s.Rows = s.Data[first*size:last*size], last-first
	}
	v.Data, v.Rows = v.Data[lo*size:hi*size], hi-lo
	return v
}

// LoadWeight implements backend.Backend.
func (s *survey) LoadWeight(v backend.View) (backend.Weight, error) {
	if f := cpu.FormatOf(v.Name, s.format); f != cpu.AsStored {
		s.want(wanted{name: v.Name, format: f}, cpu.PackedSize(v.Rows, v.Cols, f))
	}
	return 1, nil
}

// LoadKVB implements backend.Backend.
func (s *survey) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if cpu.FormatOf(v.Name, s.format) != cpu.AsStored {
		s.want(wanted{name: v.Name, heads: heads, nope: nope, vdim: vdim}, cpu.PackedKVBSize(heads, nope, vdim, v.Cols))
	}
	return 1, nil
}

func (s *survey) want(w wanted, size int) {
	s.wanted = append(s.wanted, w)
	s.blobs = append(s.blobs, checkpoint.Blob{Name: w.name, Size: int64(size)})
}

// NewBuffer implements backend.Backend.
func (s *survey) NewBuffer(int, int) (backend.Buffer, error) { return 1, nil }

// NewSelection implements backend.Backend.
func (s *survey) NewSelection(int, int) (backend.Selection, error) { return 1, nil }

// NewPlan implements backend.Backend.
func (s *survey) NewPlan(int, int) (backend.Plan, error) { return 1, nil }

// convert loads a model's weights as c says. Progress counts the bytes of blobs.
func (m *Model) convert(ctx context.Context, c Config, weights string, o decoder.Options) error {
	b := &converted{Backend: m.device.(*cpu.Backend), format: c.Weights.format()}
	s := &survey{format: b.format}
	outlines := o
	outlines.Tensor = m.ck.Outline
	if _, err := decoder.Load(s, m.ck, outlines); err != nil {
		return err
	}
	ahead := newLookAhead(m.ck, s.wanted)
	defer ahead.end()
	key := checkpoint.PackedKey{Weights: weights, Format: b.format.String(), Version: cpu.FormatVersion}
	blobs, err := checkpoint.LoadPacked(ctx, key, s.blobs, checkpoint.PackedOptions{
		Dir:        c.WeightsCache,
		OnProgress: reporter(c.OnProgress),
		OnFault: func(err error) {
			if _, miss := errors.AsType[*checkpoint.PackedMissError](err); miss {
				m.logger.Info("the cache has other weights and is made anew", "reason", err)
				return
			}
			m.logger.Warn("the cache of weights is of no use", "error", err)
		},
		Make: func(i int, dst []byte) error {
			ahead.begin(i)
			return s.wanted[i].pack(ctx, b.Backend, m.ck, dst, slabBytes)
		},
	})
	if err != nil {
		if ctx.Err() != nil {
			return cancelled(ctx)
		}
		return err
	}
	if blobs.Mapped {
		m.logger.Info("weights do not fit into memory and are mapped", "format", key.Format)
	}
	m.logger.Debug("weights converted", "format", key.Format, "from cache", blobs.Stored)
	b.blobs, m.device = blobs, b
	o.Tensor = func(name string) (checkpoint.Tensor, error) {
		if blobs.Blob(name) != nil {
			return m.ck.Outline(name)
		}
		return m.ck.Tensor(name)
	}
	m.graph, err = decoder.Load(b, m.ck, o)
	return err
}

// reporter passes on what brings progress further: a cache that turns out to be
// broken takes a load back.
func reporter(f func(Progress)) func(done, total int64) {
	if f == nil {
		return nil
	}
	last := int64(-1)
	return func(done, total int64) {
		if done > last {
			last = done
			f(Progress{Done: done, Total: total})
		}
	}
}

// lookAhead has the disk read while the processors convert. Asking waits when the
// disk has enough to do, hence the goroutine.
type lookAhead struct {
	wanted []wanted
	next   int // first weight that was not asked for
	names  chan string
	ended  chan struct{}
}

// weightsAhead is how many weights are read ahead of the one that is converted: a
// few experts.
const weightsAhead = 16

func newLookAhead(ck *checkpoint.Checkpoint, w []wanted) *lookAhead {
	a := &lookAhead{wanted: w, names: make(chan string, weightsAhead), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		for name := range a.names {
			ck.Want(name)
		}
	}()
	return a
}

// begin tells that weight i is converted now.
func (a *lookAhead) begin(i int) {
	for a.next = max(a.next, i); a.next < min(i+weightsAhead, len(a.wanted)); a.next++ {
		select {
		case a.names <- a.wanted[a.next].name:
		default: // the disk is behind as it is
			return
		}
	}
}

// end stops asking.
func (a *lookAhead) end() {
	close(a.names)
	<-a.ended
}

// format is the CPU's name of w.
func (w Weights) format() cpu.Format {
	switch w {
	case Int8:
		return cpu.Int8
	case Int4:
		return cpu.Int4
	}
	return cpu.AsStored
}
