package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
)

const (
	pageSize = 64
	maxRows  = 512
	maxBatch = 16
)

// model is a synthetic model with filled KV pages.
type model struct {
	*decoder.Model
	b      *synthetic.Backend
	ck     *checkpoint.Checkpoint
	pages  backend.Pages
	dir    string
	random *rand.Rand
	load   time.Duration
}

// openModel makes a model and pages for the given number of positions.
func openModel(config string, f synthetic.Format, kv backend.KVFormat, threads, positions int) (_ *model, err error) {
	m := &model{random: rand.New(rand.NewPCG(1, 2))}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.dir, err = os.MkdirTemp("", "layers"); err != nil {
		return nil, err
	}
	if m.ck, err = synthetic.Open(m.dir, config); err != nil {
		return nil, err
	}
	if m.b, err = synthetic.NewBackend(threads, f); err != nil {
		return nil, err
	}
	m.b.Period = 64 // what is said does not matter, and 30 billion weights are many
	start := time.Now()
	// Plans are kept apart by layer so that the experts that were read can be counted.
	if m.Model, err = decoder.Load(m.b, m.ck, decoder.Options{Rows: maxRows, Outs: maxBatch, Trace: true}); err != nil {
		return nil, err
	}
	m.load = time.Since(start)
	spec := backend.PageSpec{Pages: (positions + pageSize - 1) / pageSize, PageSize: pageSize, Format: kv, Planes: m.Planes}
	if m.pages, err = m.b.NewPages(spec); err != nil {
		return nil, err
	}
	return m, m.fill()
}

func (m *model) close() (err error) {
	if m.pages != nil {
		err = m.pages.Close()
	}
	if m.b != nil {
		err = errors.Join(err, m.b.Close())
	}
	if m.ck != nil {
		err = errors.Join(err, m.ck.Close())
	}
	return errors.Join(err, os.RemoveAll(m.dir))
}

// fill writes keys of about the size that norms give them, as if the positions had
// been computed.
func (m *model) fill() error {
	spec := m.pages.Spec()
	size := spec.Format.Size()
	values := make([]byte, 2*spec.PageBytes())
	for i := 0; i < len(values); i += size {
		bits := math.Float32bits(float32(m.random.NormFloat64()))
		if size == 4 {
			binary.LittleEndian.PutUint32(values[i:], bits)
		} else {
			binary.LittleEndian.PutUint16(values[i:], uint16(bits>>16))
		}
	}
	for p := range spec.Pages {
		from := m.random.IntN(spec.PageBytes()/size) * size
		if err := m.pages.Import(p, values[from:][:spec.PageBytes()]); err != nil {
			return err
		}
	}
	return nil
}

// step makes a step of batch sequences, each of which adds rows random tokens and
// then has context positions. The pages of a sequence are scattered.
func (m *model) step(batch, rows, context int) *backend.Step {
	stride := (context + pageSize - 1) / pageSize
	s := &backend.Step{QStart: []int32{0}, Stride: stride, PageTag: make([]uint64, batch*stride)}
	for q := range batch {
		for i := range rows {
			s.IDs = append(s.IDs, m.random.Int32N(int32(m.ck.Config.Vocab)))
			s.Seq = append(s.Seq, int32(q))
			s.Pos = append(s.Pos, int32(context-rows+i))
		}
		s.QStart = append(s.QStart, int32(len(s.IDs)))
		s.KVLen = append(s.KVLen, int32(context))
		s.Session, s.Tag = append(s.Session, uint64(q+1)), append(s.Tag, 0)
		s.Out = append(s.Out, int32(len(s.IDs)-1))
		s.Sampling = append(s.Sampling, backend.Sampling{})
		for i := range stride {
			s.Pages = append(s.Pages, int32((stride-1-i)*batch+q))
		}
	}
	return s
}

// run computes a program and returns the seconds it took. A row that failed is an
// error.
func (m *model) run(p backend.Program, s *backend.Step) (float64, error) {
	start := time.Now()
	if err := m.b.Start(p, s, m.pages); err != nil {
		return 0, err
	}
	r, err := m.b.Wait()
	took := time.Since(start).Seconds()
	if err != nil {
		return 0, err
	}
	for row, h := range r.Health {
		if h != 0 {
			return 0, fmt.Errorf("row %d at position %d is %v", row, s.Pos[row], h)
		}
	}
	return took, nil
}
