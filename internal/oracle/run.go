package oracle

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// pass is one step on its way through a program.
type pass struct {
	o     *Oracle
	step  *backend.Step
	pages *Pages
	live  []int // rows that compute: those of sequences whose tags match

	result *backend.Result
	err    error
}

// Start checks the step and computes it in the background.
func (o *Oracle) Start(program backend.Program, step *backend.Step, pages backend.Pages) error {
	if o.closed {
		return errClosed
	}
	if o.running != nil {
		return errBusy
	}
	kv, ok := pages.(*Pages)
	if !ok || kv.data == nil {
		return errForeign
	}
	if err := step.Check(kv.spec, o.vocab(program)); err != nil {
		return err
	}
	if err := step.CheckRoom(program.Room(
		func(h backend.Buffer) int { rows, _ := o.buffers[h].Dims(); return rows },
		func(h backend.Selection) int { return len(o.selections[h].lists) },
		func(h backend.Plan) int { return len(o.plans[h].ids) },
	)); err != nil {
		return err
	}
	p := &pass{o: o, step: step, pages: kv, result: newResult(step)}
	o.running, o.done = p, make(chan struct{})
	go func() {
		defer close(o.done)
		p.checkTags()
		p.run(program)
	}()
	return nil
}

// Wait returns what the started step left behind.
func (o *Oracle) Wait() (*backend.Result, error) {
	if o.running == nil {
		return nil, errNoStep
	}
	<-o.done
	p := o.running
	o.running = nil
	if p.err != nil {
		return nil, p.err
	}
	return p.result, nil
}

// vocab is the number of embedding rows; a program that embeds nothing reads no
// ids, so they are not bounded.
func (o *Oracle) vocab(program backend.Program) int {
	for _, op := range program {
		if e, ok := op.(*backend.Embed); ok && e.Table > 0 && int(e.Table) < len(o.weights) {
			rows, _ := o.weights[e.Table].Dims()
			return rows
		}
	}
	return math.MaxInt32
}

func newResult(step *backend.Step) *backend.Result {
	r := &backend.Result{
		Epoch:   step.Epoch,
		Session: append([]uint64{}, step.Session...),
		Tag:     append([]uint64{}, step.Tag...),
		Health:  make([]backend.Health, step.Rows()),
		ID:      make([]int32, len(step.Out)),
		LogProb: make([]float32, len(step.Out)),
		Top:     make([][]backend.TokenProb, len(step.Out)),
	}
	for i := range r.ID {
		r.ID[i] = -1
	}
	return r
}

// checkTags leaves only rows alive whose pages carry the tags of the step. The
// rows of any other sequence are treated like padding from here on.
func (p *pass) checkTags() {
	for r, seq := range p.step.Seq {
		switch {
		case seq < 0:
		case p.owns(int(seq)):
			p.live = append(p.live, r)
		default:
			p.result.Health[r] |= backend.TagMismatch
		}
	}
}

func (p *pass) owns(seq int) bool {
	size := p.pages.spec.PageSize
	for pos := 0; pos < int(p.step.KVLen[seq]); pos += size {
		at := seq*p.step.Stride + pos/size
		if from, to := p.step.Writes(seq); pos+size > from && pos < to && p.step.PageTag[at] != p.step.Tag[seq] {
			return false // it would write into a page of somebody else
		}
		if p.pages.tags[p.step.Pages[at]] != p.step.PageTag[at] {
			return false
		}
	}
	return true
}

// run applies the operations in order and looks at the abort word before each.
// Operands that do not fit each other make gonum or an index panic; that ends
// the step with an error.
func (p *pass) run(program backend.Program) {
	at := -1
	defer func() {
		if r := recover(); r != nil {
			p.err = fmt.Errorf("oracle: operation %d (%T): %v", at, program[at], r)
		}
	}()
	for i, op := range program {
		if p.step.Abort != nil && p.step.Abort.Load() {
			aborted := newResult(p.step)
			aborted.Aborted = true
			p.result = aborted
			return
		}
		at = i
		p.apply(op)
	}
}

func (p *pass) apply(op backend.Op) {
	switch op := op.(type) {
	case *backend.Embed:
		p.embed(op)
	case *backend.MLAProject:
		p.mlaProject(op)
	case *backend.IndexProject:
		p.indexProject(op)
	case *backend.IndexSelect:
		p.indexSelect(op)
	case *backend.MLAAttend:
		p.mlaAttend(op)
	case *backend.GQAProject:
		p.gqaProject(op)
	case *backend.GQAAttend:
		p.gqaAttend(op)
	case *backend.Linear:
		p.linear(op)
	case *backend.MLP:
		p.mlp(op)
	case *backend.Route:
		p.route(op)
	case *backend.SharedExpert:
		p.sharedExpert(op)
	case *backend.Experts:
		p.experts(op)
	case *backend.FinalNorm:
		p.finalNorm(op)
	case *backend.Logits:
		p.logits(op)
	case *backend.AdjustLogits:
		p.adjustLogits(op)
	case *backend.Sample:
		p.sample(op)
	default:
		panic("unknown operation")
	}
}

// fail marks a row.
func (p *pass) fail(r int, h backend.Health) { p.result.Health[r] |= h }

// weight returns a matrix, [out, in].
func (p *pass) weight(w backend.Weight) *mat.Dense { return p.o.weights[w] }

// vector returns a weight of one row.
func (p *pass) vector(w backend.Weight) []float64 {
	m := p.o.weights[w]
	if rows, cols := m.Dims(); rows != 1 {
		panic(fmt.Sprintf("a vector was loaded as [%d %d]", rows, cols))
	}
	return m.RawRowView(0)
}

// row returns one row of a buffer; writing to it writes the buffer.
func (p *pass) row(b backend.Buffer, r int) []float64 { return p.o.buffers[b].RawRowView(r) }

// put replaces a row of a buffer, or adds to it.
func (p *pass) put(b backend.Buffer, r int, y []float64, add bool) {
	dst := p.row(b, r)
	if len(dst) != len(y) {
		panic(fmt.Sprintf("a buffer row is %d wide, the result %d", len(dst), len(y)))
	}
	for i := range dst {
		if add {
			dst[i] += y[i]
		} else {
			dst[i] = y[i]
		}
	}
}
