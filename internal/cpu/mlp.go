package cpu

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
	"github.com/cofferdam-ml/cofferdam/moe"
)

// ffn is one feed-forward block and the lines it works on: its line i leaves its
// result in out line at[i].
type ffn struct {
	gate, up, down *weight
	in             lines
	at             []int32
	first          int // its first line among those of all blocks
}

// runFFN runs blocks of equal shape: hidden is [lines, inner], out [lines, H].
// Workers take some rows of a block or of a few, so a block with many lines spreads.
func (b *Backend) runFFN(blocks []ffn, out mat, clamp float32, add bool) {
	if len(blocks) == 0 || len(blocks[0].at) == 0 {
		return
	}
	lines := 0
	for _, f := range blocks {
		for _, at := range f.at {
			lines = max(lines, int(at)+1)
		}
	}
	inner, width := blocks[0].gate.Rows, blocks[0].down.Rows
	hidden := mat{stride: inner}
	codes := rounded(&b.codes.hidden, lines, inner, blocks[0].down)
	if codes == nil {
		raw, ok := b.temp(&b.tmp.hidden, lines*inner)
		if !ok {
			return
		}
		hidden.data = raw
	}

	average := lines / len(blocks)
	gate := &b.phases.gate
	*gate = gatePhase{b.divide(blocks, inner, average), hidden, codes, clamp}
	b.pool.run(gate.tasks(), gate)

	down := &b.phases.down
	*down = downPhase{b.divide(blocks, width, average), hidden, codes, out, add}
	b.pool.run(down.tasks(), down)
}

// divided are rows of blocks, one block's after the other's, in pieces. In them a block
// has a multiple of tileUnit rows, so that each piece begins a panel.
type divided struct {
	blocks []ffn
	height int
	bounds []int
}

// divide cuts n rows of each block, which have some lines each on average. Where one has
// many, a long piece of its rows would be long work.
func (b *Backend) divide(blocks []ffn, n, lines int) divided {
	longest := longTile
	for _, f := range blocks {
		if len(f.at) > fewLines {
			longest = fewTile
		}
	}
	height := roundUp(n, tileUnit)
	return divided{blocks, height, b.pieces(len(blocks)*height, lines, longest)}
}

func (d *divided) tasks() int { return len(d.bounds) - 1 }

// each calls f with the rows [n0, n1) of blocks that are in a piece.
func (d *divided) each(piece, rows int, f func(block *ffn, n0, n1 int)) {
	for at, end := d.bounds[piece], d.bounds[piece+1]; at < end; {
		n0 := at % d.height
		n1 := min(n0+end-at, d.height)
		f(&d.blocks[at/d.height], n0, min(n1, rows))
		at += n1 - n0
	}
}

// gatePhase computes silu(gate x) * up x, some rows a task.
type gatePhase struct {
	divided
	hidden mat
	codes  *kernel.Quantized // hidden, rounded; nil if down is stored
	clamp  float32
}

func (p *gatePhase) task(k *worker, task int) {
	p.each(task, p.blocks[0].gate.Rows, func(f *ffn, n0, n1 int) {
		gate := k.products(&k.y, f.gate, n0, n1, f.in)
		up := k.products(&k.y2, f.up, n0, n1, f.in)
		kernel.SwiGLU(gate.y, up.y, p.clamp)
		for i, at := range f.at {
			if p.codes != nil {
				p.codes.SetPart(f.first+i, n0/kernel.Group, gate.line(i))
			} else {
				copy(p.hidden.row(at, f.gate.Rows)[n0:], gate.line(i))
			}
		}
	})
}

type downPhase struct {
	divided
	hidden mat
	codes  *kernel.Quantized
	out    mat
	add    bool
}

func (p *downPhase) task(k *worker, task int) {
	width := p.blocks[0].down.Rows
	p.each(task, width, func(f *ffn, n0, n1 int) {
		t := k.products(&k.y, f.down, n0, n1, lines{p.hidden, f.at, p.codes, f.first})
		for line, at := range f.at {
			o := p.out.row(at, width)[n0:]
			for j, v := range t.line(line) {
				if p.add {
					v += o[j]
				}
				o[j] = v
			}
		}
	})
}

func (b *Backend) runMLP(op *backend.MLP) {
	norm := b.vector(op.Norm)
	raw, ok := b.temp(&b.tmp.latent, b.step.Rows()*len(norm))
	if !ok {
		return
	}
	gate, up := b.weight(op.Gate), b.weight(op.Up)
	x := b.normLines(&b.codes.x, mat{raw, len(norm)}, b.mat(op.H), norm, op.Eps, gate, up)
	b.dense(x, gate, up, b.weight(op.Down), op.Clamp, op.Dst, op.Add)
}

func (b *Backend) runSharedExpert(op *backend.SharedExpert) {
	gate, up := b.weight(op.Gate), b.weight(op.Up)
	x := b.lines(&b.codes.x, b.mat(op.X), b.active, gate, up)
	b.dense(x, gate, up, b.weight(op.Down), op.Clamp, op.Dst, op.Add)
}

// dense runs one block over every active row.
func (b *Backend) dense(x lines, gate, up, down *weight, clamp float32, dst backend.Buffer, add bool) {
	b.blocks = append(b.blocks[:0], ffn{gate, up, down, x, b.active, 0})
	b.runFFN(b.blocks, b.mat(dst), clamp, add)
}

func (b *Backend) runRoute(op *backend.Route) {
	gate, bias, p := b.weight(op.Gate), b.vector(op.Bias), b.plan(op.Dst)
	x := b.normLines(&b.codes.x, b.mat(op.X), b.mat(op.H), b.vector(op.Norm), op.Eps, gate)
	raw, ok := b.temp(&b.tmp.latent, 2*b.step.Rows()*gate.Rows)
	if !ok {
		return
	}
	logits := mat{raw, gate.Rows}
	scores := mat{raw[b.step.Rows()*gate.Rows:], gate.Rows}
	b.linear(logits, x, gate, nil, false)
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
	p, dst := b.plan(op.Plan), b.mat(op.Dst)
	slots := b.step.Rows() * p.k
	b.groups.Group(p.ids, p.k, b.active, len(op.Gate))

	x := b.lines(&b.codes.x, b.mat(op.X), b.active, b.weight(op.Gate[0]), b.weight(op.Up[0]))
	blocks := b.blocks[:0]
	rowOf := grow(&b.rowOf, len(b.groups.Slots))
	for i, slot := range b.groups.Slots {
		rowOf[i] = slot / int32(p.k)
	}
	for e := range op.Gate {
		slots := b.groups.Of(e)
		if len(slots) > 0 {
			first := int(b.groups.Start[e])
			in := lines{x.mat, rowOf[first:][:len(slots)], x.codes, 0}
			blocks = append(blocks, ffn{b.weight(op.Gate[e]), b.weight(op.Up[e]), b.weight(op.Down[e]), in, slots, first})
		}
	}
	b.blocks = blocks
	b.gather(blocks, x.codes)
	width := b.weight(op.Down[0]).Rows
	raw, ok := b.temp(&b.tmp.outputs, slots*width)
	if !ok {
		return
	}
	out := mat{raw, width}
	b.runFFN(blocks, out, op.Clamp, false)

	combine := &b.phases.combine
	*combine = combinePhase{b.active, p, out, dst, width, op.Add}
	b.pool.run(len(b.active), combine)
}

// gather gives each block its inputs as lines that follow each other: the row's own
// line where there is but one, else copies of the codes.
func (b *Backend) gather(blocks []ffn, x *kernel.Quantized) {
	if x == nil {
		return
	}
	several := false
	for i := range blocks {
		in := &blocks[i].in
		if len(in.rows) == 1 {
			in.first = int(b.lineOf[in.rows[0]])
		} else {
			in.codes, in.first, several = &b.codes.slots, blocks[i].first, true
		}
	}
	if !several {
		return
	}
	b.codes.slots.Resize(len(b.groups.Slots), x.Groups*kernel.Group)
	p := &b.phases.gather
	*p = gatherPhase{blocks, x, b.lineOf}
	b.pool.run(len(blocks), p)
}

// gatherPhase copies the inputs of a block.
type gatherPhase struct {
	blocks []ffn
	x      *kernel.Quantized
	lineOf []int32
}

func (p *gatherPhase) task(_ *worker, i int) {
	in := &p.blocks[i].in
	if in.codes == p.x {
		return
	}
	for j, r := range in.rows {
		in.codes.CopyLine(in.first+j, p.x, int(p.lineOf[r]))
	}
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
