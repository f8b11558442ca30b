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

	tasks, per := b.tiles(inner, 2*len(blocks))
	b.pool.run(len(blocks)*tasks, func(k *worker, task int) {
		f, n0 := &blocks[task/tasks], task%tasks*per
		n1 := min(n0+per, inner)
		gate := k.products(&k.y, f.gate, n0, n1, x, f.in)
		up := k.products(&k.y2, f.up, n0, n1, x, f.in)
		kernel.SwiGLU(gate.y, up.y, clamp)
		gate.each(func(line, n int, y []float32) {
			copy(hidden.row(f.at[line], inner)[n:], y)
		})
	})
	tasks, per = b.tiles(width, len(blocks))
	b.pool.run(len(blocks)*tasks, func(k *worker, task int) {
		f, n0 := &blocks[task/tasks], task%tasks*per
		down := k.products(&k.y, f.down, n0, min(n0+per, width), hidden, f.at)
		down.each(func(line, n int, y []float32) {
			o := out.row(f.at[line], width)[n:]
			for j, v := range y {
				if add {
					v += o[j]
				}
				o[j] = v
			}
		})
	})
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
	f := ffn{b.weight(gate), b.weight(up), b.weight(down), b.active, b.active}
	b.runFFN([]ffn{f}, x, b.mat(dst), clamp, add)
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
	b.pool.run(len(b.active), func(_ *worker, i int) {
		r := b.active[i]
		at := int(r) * p.k
		moe.Route(logits.row(r, gate.Rows), bias, op.Renorm, op.Scale,
			p.ids[at:at+op.K], p.weights[at:at+op.K], scores.row(r, gate.Rows))
	})
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

	b.pool.run(len(b.active), func(_ *worker, i int) {
		r := b.active[i]
		y := dst.row(r, width)
		if !op.Add {
			clear(y)
		}
		for slot := int(r) * p.k; slot < (int(r)+1)*p.k; slot++ {
			if p.ids[slot] < 0 { // the row had too few usable experts: fail it
				y[0] = float32(math.NaN())
				continue
			}
			kernel.AddScaled(y, p.weights[slot], out.row(int32(slot), width))
		}
	})
}
