package cpu

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
	"github.com/cofferdam-ml/cofferdam/moe"
)

// ffn is one feed-forward block and the lines it works on: line i reads x row
// in[i] and leaves its result in out line at[i].
type ffn struct {
	gate, up, down *weight
	in, at         []int32
}

// runFFN runs blocks of equal shape: hidden is [lines, inner], out [lines, H].
// Workers take (block, column tile) pairs, so a block with many lines spreads.
func (b *Backend) runFFN(blocks []ffn, x, out mat, clamp float32, add bool) {
	if len(blocks) == 0 || len(blocks[0].in) == 0 {
		return
	}
	lines := 0
	for _, f := range blocks {
		for _, at := range f.at {
			lines = max(lines, int(at)+1)
		}
	}
	inner, width := blocks[0].gate.Rows, blocks[0].down.Rows
	raw, ok := b.temp(&b.tmp.hidden, lines*inner)
	if !ok {
		return
	}
	hidden := mat{raw, inner}

	gate := &b.phases.gate
	tasks, per := b.tiles(inner, 2*len(blocks))
	*gate = gatePhase{blocks, x, hidden, clamp, tasks, per}
	b.pool.run(len(blocks)*tasks, gate)

	down := &b.phases.down
	tasks, per = b.tiles(width, len(blocks))
	*down = downPhase{blocks, hidden, out, add, tasks, per}
	b.pool.run(len(blocks)*tasks, down)
}

// gatePhase computes silu(gate x) * up x, a block and some of its rows a task.
type gatePhase struct {
	blocks     []ffn
	x, hidden  mat
	clamp      float32
	tiles, per int // tasks of a block, weight rows of a task
}

func (p *gatePhase) task(k *worker, task int) {
	f, n0 := &p.blocks[task/p.tiles], task%p.tiles*p.per
	n1 := min(n0+p.per, f.gate.Rows)
	gate := k.products(&k.y, f.gate, n0, n1, p.x, f.in)
	up := k.products(&k.y2, f.up, n0, n1, p.x, f.in)
	kernel.SwiGLU(gate.y, up.y, p.clamp)
	for line, at := range f.at {
		copy(p.hidden.row(at, f.gate.Rows)[n0:], gate.line(line))
	}
}

type downPhase struct {
	blocks      []ffn
	hidden, out mat
	add         bool
	tiles, per  int
}

func (p *downPhase) task(k *worker, task int) {
	f, n0 := &p.blocks[task/p.tiles], task%p.tiles*p.per
	width := f.down.Rows
	t := k.products(&k.y, f.down, n0, min(n0+p.per, width), p.hidden, f.at)
	for line, at := range f.at {
		o := p.out.row(at, width)[n0:]
		for j, v := range t.line(line) {
			if p.add {
				v += o[j]
			}
			o[j] = v
		}
	}
}

func (b *Backend) runMLP(op *backend.MLP) {
	norm := b.vector(op.Norm)
	raw, ok := b.temp(&b.tmp.latent, b.step.Rows()*len(norm))
	if !ok {
		return
	}
	x := mat{raw, len(norm)}
	b.normRows(x, b.mat(op.H), norm, op.Eps)
	b.dense(x, op.Gate, op.Up, op.Down, op.Clamp, op.Dst, op.Add)
}

func (b *Backend) runSharedExpert(op *backend.SharedExpert) {
	b.dense(b.mat(op.X), op.Gate, op.Up, op.Down, op.Clamp, op.Dst, op.Add)
}

// dense runs one block over every active row.
func (b *Backend) dense(x mat, gate, up, down backend.Weight, clamp float32, dst backend.Buffer, add bool) {
	b.blocks = append(b.blocks[:0], ffn{b.weight(gate), b.weight(up), b.weight(down), b.active, b.active})
	b.runFFN(b.blocks, x, b.mat(dst), clamp, add)
}

func (b *Backend) runRoute(op *backend.Route) {
	gate, bias, p := b.weight(op.Gate), b.vector(op.Bias), b.plan(op.Dst)
	x := b.mat(op.X)
	b.normRows(x, b.mat(op.H), b.vector(op.Norm), op.Eps)
	raw, ok := b.temp(&b.tmp.latent, 2*b.step.Rows()*gate.Rows)
	if !ok {
		return
	}
	logits := mat{raw, gate.Rows}
	scores := mat{raw[b.step.Rows()*gate.Rows:], gate.Rows}
	b.linear(logits, x, b.active, gate, nil, false)
	choose := &b.phases.route
	*choose = routePhase{b.active, op, p, bias, logits, scores}
	b.pool.run(len(b.active), choose)
}

type routePhase struct {
	rows           []int32
	op             *backend.Route
	plan           plan
	bias           []float32
	logits, scores mat
}

func (p *routePhase) task(_ *worker, i int) {
	r, op, k, experts := p.rows[i], p.op, p.plan.k, p.logits.stride
	at := int(r) * k
	moe.Route(p.logits.row(r, experts), p.bias, op.Renorm, op.Scale,
		p.plan.ids[at:at+op.K], p.plan.weights[at:at+op.K], p.scores.row(r, experts))
}

func (b *Backend) runExperts(op *backend.Experts) {
	p, x, dst := b.plan(op.Plan), b.mat(op.X), b.mat(op.Dst)
	slots := b.step.Rows() * p.k
	b.groups.Group(p.ids, p.k, b.active, len(op.Gate))

	blocks := b.blocks[:0]
	rowOf := grow(&b.rowOf, len(b.groups.Slots))
	for i, slot := range b.groups.Slots {
		rowOf[i] = slot / int32(p.k)
	}
	for e := range op.Gate {
		slots := b.groups.Of(e)
		if len(slots) > 0 {
			rows := rowOf[b.groups.Start[e]:][:len(slots)]
			blocks = append(blocks, ffn{b.weight(op.Gate[e]), b.weight(op.Up[e]), b.weight(op.Down[e]), rows, slots})
		}
	}
	b.blocks = blocks
	width := b.weight(op.Down[0]).Rows
	raw, ok := b.temp(&b.tmp.outputs, slots*width)
	if !ok {
		return
	}
	out := mat{raw, width}
	b.runFFN(blocks, x, out, op.Clamp, false)

	combine := &b.phases.combine
	*combine = combinePhase{b.active, p, out, dst, width, op.Add}
	b.pool.run(len(b.active), combine)
}

// combinePhase adds a row's expert outputs in the order of its selection.
type combinePhase struct {
	rows     []int32
	plan     plan
	out, dst mat
	width    int
	add      bool
}

func (c *combinePhase) task(_ *worker, i int) {
	r, p := c.rows[i], &c.plan
	y := c.dst.row(r, c.width)
	if !c.add {
		clear(y)
	}
	for slot := int(r) * p.k; slot < (int(r)+1)*p.k; slot++ {
		if p.ids[slot] < 0 { // the row had too few usable experts: fail it
			y[0] = float32(math.NaN())
			continue
		}
		kernel.AddScaled(y, p.weights[slot], c.out.row(int32(slot), c.width))
	}
}
