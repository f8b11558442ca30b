package cpu

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
	"github.com/cofferdam-ml/cofferdam/moe"
)

// Backend implements backend.Backend with threads.
type Backend struct {
	pool        *pool
	weights     []*weight // index is the handle; 0 is "absent"
	vectors     map[backend.Weight][]float32
	buffers     []buffer
	sels        []selection
	plans       []plan
	regions     []*offheap.Region
	ropes       map[backend.Rope]*ropeTable
	tmp         scratch
	groups      moe.Groups
	scoreBudget int     // scoreBudget; tests lower it
	rowOf       []int32 // row of each grouped slot
	bounds      []int   // of the weight rows of the tasks of a product
	blocks      []ffn   // experts with rows
	absorbed    []int32 // rows that attend absorbed where others do not
	phases      phases
	codes       codes
	names       map[reflect.Type]string

	// The program that ran last.
	last  backend.Program
	room  backend.Room
	vocab int

	// The step in progress.
	step   *backend.Step
	pages  *pages
	active []int32 // rows that take part: not padding, of a sequence with the right tags
	lineOf []int32 // where a row stands in active, if it does
	alive  []bool  // the same by row
	starts uint64
	result backend.Result
	found  []backend.Health // by out row, before it is put together
	begin  chan backend.Program
	done   chan struct{}
	busy   bool
	closed bool
}

var _ backend.Backend = (*Backend)(nil)

type buffer struct {
	mat
	rows int
}

// selection keeps up to k positions per row; a count outside [0, k] cannot
// arise from IndexSelect, but a test may write one.
type selection struct {
	k     int
	pos   []int32
	count []int32
}

type plan struct {
	k       int
	ids     []int32
	weights []float32
}

// Open starts a backend with the given number of threads; 0 means GOMAXPROCS.
func Open(threads int) *Backend {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	b := &Backend{
		pool:        newPool(threads),
		weights:     make([]*weight, 1),
		vectors:     map[backend.Weight][]float32{},
		buffers:     make([]buffer, 1),
		sels:        make([]selection, 1),
		plans:       make([]plan, 1),
		ropes:       map[backend.Rope]*ropeTable{},
		names:       map[reflect.Type]string{},
		begin:       make(chan backend.Program),
		done:        make(chan struct{}, 1),
		scoreBudget: scoreBudget,
	}
	go b.serve()
	return b
}

// serve runs programs until the backend is closed.
func (b *Backend) serve() {
	for p := range b.begin {
		b.execute(p)
		b.done <- struct{}{}
	}
}

// Name implements backend.Backend.
func (b *Backend) Name() string {
	return "cpu, " + kernel.Name()
}

// LoadWeight implements backend.Backend. The bytes of v are read in place.
func (b *Backend) LoadWeight(v backend.View) (backend.Weight, error) {
	if err := v.Check(); err != nil {
		return 0, err
	}
	return b.addWeight(newWeight(v)), nil
}

func (b *Backend) addWeight(w *weight) backend.Weight {
	b.weights = append(b.weights, w)
	return backend.Weight(len(b.weights) - 1)
}

// NewBuffer implements backend.Backend.
func (b *Backend) NewBuffer(rows, cols int) (backend.Buffer, error) {
	if rows <= 0 || cols <= 0 {
		return 0, fmt.Errorf("cpu: buffer [%d %d]", rows, cols)
	}
	region, err := offheap.Alloc(4 * rows * cols)
	if err != nil {
		return 0, fmt.Errorf("cpu: buffer [%d %d]: %w", rows, cols, err)
	}
	b.regions = append(b.regions, region)
	b.buffers = append(b.buffers, buffer{mat{region.Float32s(), cols}, rows})
	return backend.Buffer(len(b.buffers) - 1), nil
}

// NewSelection implements backend.Backend.
func (b *Backend) NewSelection(rows, k int) (backend.Selection, error) {
	if rows <= 0 || k <= 0 {
		return 0, fmt.Errorf("cpu: selection of %d positions for %d rows", k, rows)
	}
	region, err := offheap.Alloc(4 * rows * k)
	if err != nil {
		return 0, fmt.Errorf("cpu: selection of %d positions for %d rows: %w", k, rows, err)
	}
	b.regions = append(b.regions, region)
	b.sels = append(b.sels, selection{k, region.Int32s(), make([]int32, rows)})
	return backend.Selection(len(b.sels) - 1), nil
}

// NewPlan implements backend.Backend.
func (b *Backend) NewPlan(rows, k int) (backend.Plan, error) {
	if rows <= 0 || k <= 0 {
		return 0, fmt.Errorf("cpu: plan of %d experts for %d rows", k, rows)
	}
	b.plans = append(b.plans, plan{k, make([]int32, rows*k), make([]float32, rows*k)})
	return backend.Plan(len(b.plans) - 1), nil
}

func (b *Backend) mat(h backend.Buffer) mat                { return b.buffers[h].mat }
func (b *Backend) weight(h backend.Weight) *weight         { return b.weights[h] }
func (b *Backend) selection(h backend.Selection) selection { return b.sels[h] }
func (b *Backend) plan(h backend.Plan) plan                { return b.plans[h] }

// vector returns a small weight as f32, decoded once; nil for an absent one.
func (b *Backend) vector(h backend.Weight) []float32 {
	if h == 0 {
		return nil
	}
	v, ok := b.vectors[h]
	if !ok {
		v = b.weights[h].vector()
		b.vectors[h] = v
	}
	return v
}

var (
	errBusy   = errors.New("cpu: a step is running")
	errIdle   = errors.New("cpu: no step was started")
	errClosed = errors.New("cpu: closed")
)

// Start implements backend.Backend. A program must not change after its first
// start.
func (b *Backend) Start(p backend.Program, s *backend.Step, pg backend.Pages) error {
	if b.closed {
		return errClosed
	}
	if b.busy {
		return errBusy
	}
	mine, ok := pg.(*pages)
	if !ok {
		return fmt.Errorf("cpu: pages of another backend: %T", pg)
	}
	b.measure(p)
	if err := s.Check(mine.spec, b.vocab); err != nil {
		return err
	}
	if err := s.CheckRoom(b.room); err != nil {
		return err
	}
	b.step, b.pages = s, mine
	b.starts++
	b.reset()
	b.busy = true
	b.begin <- p
	return nil
}

// measure finds what a program has room for, unless it is the one that ran last.
func (b *Backend) measure(p backend.Program) {
	if len(p) > 0 && len(p) == len(b.last) && &p[0] == &b.last[0] {
		return
	}
	b.last, b.vocab = p, math.MaxInt32
	for _, op := range p {
		if e, ok := op.(*backend.Embed); ok {
			b.vocab = b.weight(e.Table).Rows
		}
	}
	b.room = p.Room(
		func(h backend.Buffer) int { return b.buffers[h].rows },
		func(h backend.Selection) int { return len(b.sels[h].count) },
		func(h backend.Plan) int { return len(b.plans[h].ids) / b.plans[h].k },
	)
}

// reset prepares the result and finds the rows that take part.
func (b *Backend) reset() {
	s, r := b.step, &b.result
	r.Epoch, r.Aborted = s.Epoch, false
	r.Session, r.Tag = append(r.Session[:0], s.Session...), append(r.Tag[:0], s.Tag...)
	clear(grow(&r.Health, s.Rows()))
	grow(&r.LogProb, len(s.Out))
	grow(&r.Top, len(s.Out))
	for i := range grow(&r.ID, len(s.Out)) {
		r.ID[i], r.LogProb[i], r.Top[i] = -1, 0, nil
	}
	b.active = b.active[:0]
	grow(&b.lineOf, s.Rows())
	clear(grow(&b.alive, s.Rows()))
	for q := range s.Seqs() {
		ok := b.pages.tagsMatch(s, q)
		for row := s.QStart[q]; row < s.QStart[q+1]; row++ {
			switch {
			case s.Seq[row] < 0:
			case ok:
				b.lineOf[row], b.alive[row] = int32(len(b.active)), true
				b.active = append(b.active, row)
			default:
				r.Health[row] |= backend.TagMismatch
			}
		}
	}
}

func (b *Backend) execute(p backend.Program) {
	b.pool.abort = b.step.Abort
	b.pool.fault.Store(nil)
	for _, op := range p {
		if b.pool.stopped() {
			return
		}
		b.pool.op = b.name(op)
		b.pool.fail(guard(b.pool.op, func() { b.run(op) }))
	}
}

// name returns an operation's name for errors.
func (b *Backend) name(op backend.Op) string {
	t := reflect.TypeOf(op)
	name, ok := b.names[t]
	if !ok {
		name = strings.TrimPrefix(t.String(), "*backend.")
		b.names[t] = name
	}
	return name
}

func (b *Backend) run(op backend.Op) {
	switch op := op.(type) {
	case *backend.Embed:
		b.runEmbed(op)
	case *backend.MLAProject:
		b.runMLAProject(op)
	case *backend.IndexProject:
		b.runIndexProject(op)
	case *backend.IndexSelect:
		b.runIndexSelect(op)
	case *backend.MLAAttend:
		b.runMLAAttend(op)
	case *backend.GQAProject:
		b.runGQAProject(op)
	case *backend.GQAAttend:
		b.runGQAAttend(op)
	case *backend.Linear:
		b.runLinear(op)
	case *backend.MLP:
		b.runMLP(op)
	case *backend.Route:
		b.runRoute(op)
	case *backend.SharedExpert:
		b.runSharedExpert(op)
	case *backend.Experts:
		b.runExperts(op)
	case *backend.FinalNorm:
		b.runFinalNorm(op)
	case *backend.Logits:
		b.runLogits(op)
	case *backend.AdjustLogits:
		b.runAdjustLogits(op)
	case *backend.Sample:
		b.runSample(op)
	default:
		b.pool.fail(fmt.Errorf("cpu: operation %T: %w", op, backend.ErrUnsupported))
	}
}

// Wait implements backend.Backend.
func (b *Backend) Wait() (*backend.Result, error) {
	if !b.busy {
		return nil, errIdle
	}
	<-b.done
	b.busy = false
	if err := b.pool.fault.Load(); err != nil {
		return nil, *err
	}
	b.result.Aborted = b.step.Abort != nil && b.step.Abort.Load()
	return &b.result, nil
}

func (b *Backend) runEmbed(op *backend.Embed) {
	p := &b.phases.embed
	*p = embedPhase{b, b.weight(op.Table), b.mat(op.Dst)}
	b.pool.run(len(b.active), p)
}

type embedPhase struct {
	b     *Backend
	table *weight
	dst   mat
}

func (p *embedPhase) task(_ *worker, i int) {
	r := p.b.active[i]
	out := p.dst.row(r, p.table.Cols)
	copy(out, p.table.row(int(p.b.step.IDs[r]), out))
}

// Close implements backend.Backend.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	if b.busy {
		b.Wait()
	}
	b.closed = true
	close(b.begin)
	b.pool.close()
	var err error
	for _, r := range append(b.regions, b.tmp.regions()...) {
		err = errors.Join(err, r.Close())
	}
	b.regions = nil
	return err
}
