package cpu

import (
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

func (b *Backend) runMLAProject(op *backend.MLAProject) {
	cq, q := b.mat(op.CQ), b.mat(op.Q)
	width := op.Latent + op.Rope.Dim
	raw, ok := b.temp(&b.tmp.latent, b.step.Rows()*width)
	if !ok {
		return
	}
	kv := mat{raw, width}
	qNorm, kvNorm := b.vector(op.QNorm), b.vector(op.KVNorm)

	qa, qb, kva := b.weight(op.QA), b.weight(op.QB), b.weight(op.KVA)
	x := b.normLines(&b.codes.x, b.mat(op.X), b.mat(op.H), b.vector(op.Norm), op.Eps, qa, kva)
	b.linear(cq, x, qa, nil, false)
	latent := b.normLines(&b.codes.latent, cq, cq, qNorm, op.LatentEps, qb)
	b.linear(q, latent, qb, nil, false)
	b.linear(kv, x, kva, nil, false)

	p := &b.phases.mlaWrite
	*p = mlaWritePhase{b, op, q, kv, kvNorm, b.rope(op.Rope)}
	b.pool.run(len(b.active), p)
}

// mlaWritePhase rotates the queries of a row and writes its latent row.
type mlaWritePhase struct {
	b      *Backend
	op     *backend.MLAProject
	q, kv  mat
	kvNorm []float32
	rope   rotary
}

func (p *mlaWritePhase) task(_ *worker, i int) {
	b, op, rope, r := p.b, p.op, p.rope, p.b.active[i]
	head := op.Nope + op.Rope.Dim
	query := p.q.row(r, op.Heads*head)
	for h := range op.Heads {
		rope.interleaved(r, query[h*head+op.Nope:(h+1)*head])
	}
	row := p.kv.row(r, op.Latent+op.Rope.Dim)
	rmsNorm(row[:op.Latent], row[:op.Latent], p.kvNorm, op.LatentEps)
	rope.interleaved(r, row[op.Latent:])
	b.pages.write(b.step, b.step.Seq[r], int(b.step.Pos[r]), op.Plane, row)
}

// absorbRows bounds the rows whose absorbed queries are held at once.
const absorbRows = 32

func (b *Backend) runMLAAttend(op *backend.MLAAttend) {
	width := op.Latent + op.Rope
	rows := b.active
	if op.Expand {
		rows = b.runExpanded(op)
	}
	for len(rows) > 0 && !b.pool.stopped() {
		n := min(absorbRows, len(rows))
		absorbed, ok := b.temp(&b.tmp.absorbed, n*op.Heads*width)
		if !ok {
			return
		}
		b.attendLatent(op, rows[:n], mat{absorbed, op.Heads * width})
		rows = rows[n:]
	}
}

// attendLatent runs absorbed MLA for some rows; line i of a holds the absorbed
// queries of rows[i], then its latent outputs.
func (b *Backend) attendLatent(op *backend.MLAAttend, rows []int32, a mat) {
	kvb := b.weight(op.KVB).heads
	mla := mlaRows{
		b: b, op: op, rows: rows, a: a, kvb: kvb, width: op.Latent + op.Rope,
		queries: rounded(&b.codes.x, op.Heads*len(rows), op.Nope, kvb.ukT),
		outputs: rounded(&b.codes.latent, op.Heads*len(rows), op.Latent, kvb.uv),
	}
	q := b.mat(op.Q)
	if mla.queries != nil {
		round := &b.phases.roundHeads
		*round = roundHeadsPhase{mla, q}
		b.pool.run(len(rows), round)
	}
	absorb := &b.phases.absorb
	*absorb = absorbPhase{mla, q}
	b.pool.run(op.Heads, absorb)

	if len(rows) <= fewLines {
		b.attendBlocks(mla)
	} else {
		latent := &b.phases.latent
		*latent = latentPhase{mla, b.headGroup(len(rows), op.Heads)}
		b.pool.run(len(rows)*latent.groups(), latent)
	}

	unabsorb := &b.phases.unabsorb
	tasks, per := b.tiles(op.V, op.Heads, len(rows))
	*unabsorb = unabsorbPhase{mla, b.mat(op.Dst), tasks, per}
	b.pool.run(op.Heads*tasks, unabsorb)
}

// mlaRows is what the phases of attendLatent share.
type mlaRows struct {
	b     *Backend
	op    *backend.MLAAttend
	rows  []int32
	a     mat
	kvb   *latentUp
	width int // of a head's absorbed query

	// The queries' nope parts and the latent outputs, rounded, if kv_b is packed:
	// line h*len(rows)+i is head h of rows[i].
	queries, outputs *kernel.Quantized
}

// head returns head h of every row as lines, from column col on of x.
func (m *mlaRows) head(h, col int, x mat, rows []int32, codes *kernel.Quantized) lines {
	return lines{x.from(col), rows, codes, h * len(m.rows)}
}

// roundHeadsPhase rounds the queries of a row.
type roundHeadsPhase struct {
	mlaRows
	q mat
}

func (p *roundHeadsPhase) task(_ *worker, i int) {
	op, head := p.op, p.op.Nope+p.op.Rope
	q := p.q.row(p.rows[i], op.Heads*head)
	for h := range op.Heads {
		p.queries.Set(h*len(p.rows)+i, q[h*head:][:op.Nope])
	}
}

// absorbPhase computes a_h = [W_uk[h]^T q_nope | q_rope], a head a task.
type absorbPhase struct {
	mlaRows
	q mat
}

func (p *absorbPhase) task(k *worker, h int) {
	op, latent, head := p.op, p.op.Latent, p.op.Nope+p.op.Rope
	first := p.kvb.uk(h)
	for l0 := 0; l0 < latent; l0 += maxTile {
		t := k.products(&k.y, p.kvb.ukT, first+l0, first+min(l0+maxTile, latent), p.head(h, h*head, p.q, p.rows, p.queries))
		for line := range p.rows {
			copy(p.a.row(int32(line), p.a.stride)[h*p.width+l0:], t.line(line))
		}
	}
	for i, r := range p.rows {
		copy(p.a.row(int32(i), p.a.stride)[h*p.width+latent:(h+1)*p.width], p.q.row(r, p.q.stride)[h*head+op.Nope:(h+1)*head])
	}
}

// report notes what is wrong with the keys of rows[i].
func (m *mlaRows) report(i int, list keyList, ok bool) {
	health := &m.b.result.Health[m.rows[i]]
	switch {
	case !ok:
		*health |= backend.BadSelection
	case list.n == 0:
		*health |= backend.NonFinite
	}
}

// of describes heads [first, last) of rows[i].
func (m *mlaRows) of(i, first, last int) heads {
	line, op := m.a.row(int32(i), m.a.stride), m.op
	return heads{
		q: line, out: line, first: first, last: last,
		qWidth: m.width, outWidth: op.Latent, outStride: m.width,
		kPlane: op.Plane, vPlane: op.Plane, scale: op.Scale,
	}
}

// round rounds what became of head h of rows[i], if kv_b is packed.
func (m *mlaRows) round(i, h int) {
	if m.outputs != nil {
		m.outputs.Set(h*len(m.rows)+i, m.a.row(int32(i), m.a.stride)[h*m.width:][:m.op.Latent])
	}
}

// latentPhase computes u_h = softmax(a_h . [c | k] * scale) c, in place of the
// row's queries: a head's output is shorter than its query and is written after
// the last read. A task is some heads of a row.
type latentPhase struct {
	mlaRows
	size int // heads of a task
}

func (p *latentPhase) groups() int { return (p.op.Heads + p.size - 1) / p.size }

func (p *latentPhase) task(k *worker, task int) {
	i, first := task/p.groups(), task%p.groups()*p.size
	last := min(first+p.size, p.op.Heads)
	list, ok := p.b.listOf(p.op.Sel, p.rows[i])
	if first == 0 {
		p.report(i, list, ok)
	}
	p.b.attend(k, p.rows[i], list, p.of(i, first, last))
	for h := first; h < last; h++ {
		p.round(i, h)
	}
}

// unabsorbPhase computes o_h = W_uv[h] u_h.
type unabsorbPhase struct {
	mlaRows
	dst   mat
	tiles int // of a head
	per   int // weight rows of a tile
}

func (p *unabsorbPhase) task(k *worker, task int) {
	h, j0 := task/p.tiles, task%p.tiles*p.per
	first := p.kvb.v(h)
	n1 := first + min(j0+p.per, p.op.V)
	t := k.products(&k.y, p.kvb.uv, first+j0, n1, p.head(h, h*p.width, p.a, k.firstLines(len(p.rows)), p.outputs))
	for line, r := range p.rows {
		copy(p.dst.row(r, p.dst.stride)[h*p.op.V+j0:], t.line(line))
	}
}
