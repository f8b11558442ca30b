package cpu

import "github.com/cofferdam-ml/cofferdam/internal/backend"

func (b *Backend) runGQAProject(op *backend.GQAProject) {
	q := b.mat(op.Dst)
	width := op.KVHeads * op.HeadDim
	raw, ok := b.temp(&b.tmp.latent, 2*b.step.Rows()*width)
	if !ok {
		return
	}
	keys, vals := mat{raw, width}, mat{raw[b.step.Rows()*width:], width}

	wq, wk, wv := b.weight(op.Q), b.weight(op.K), b.weight(op.V)
	x := b.normLines(&b.codes.x, b.mat(op.X), b.mat(op.H), b.vector(op.Norm), op.Eps, wq, wk, wv)
	b.linear(q, x, wq, b.vector(op.QBias), false)
	b.linear(keys, x, wk, b.vector(op.KBias), false)
	b.linear(vals, x, wv, b.vector(op.VBias), false)

	p := &b.phases.gqaWrite
	*p = gqaWritePhase{b, op, q, keys, vals, b.vector(op.QNorm), b.vector(op.KNorm), b.rope(op.Rope)}
	b.pool.run(len(b.active), p)
}

// gqaWritePhase rotates the queries and keys of a row and writes keys and values.
type gqaWritePhase struct {
	b             *Backend
	op            *backend.GQAProject
	q, keys, vals mat
	qNorm, kNorm  []float32
	rope          rotary
}

func (p *gqaWritePhase) task(_ *worker, i int) {
	b, op, r := p.b, p.op, p.b.active[i]
	width := op.KVHeads * op.HeadDim
	p.heads(r, p.q.row(r, op.Heads*op.HeadDim), p.qNorm)
	p.heads(r, p.keys.row(r, width), p.kNorm)
	seq, pos := b.step.Seq[r], int(b.step.Pos[r])
	b.pages.write(b.step, seq, pos, op.KPlane, p.keys.row(r, width))
	b.pages.write(b.step, seq, pos, op.VPlane, p.vals.row(r, width))
}

// heads normalises and rotates the heads of a row.
func (p *gqaWritePhase) heads(r int32, row, norm []float32) {
	op, rope, d := p.op, p.rope, p.op.HeadDim
	for ; len(row) > 0; row = row[d:] {
		if norm != nil {
			rmsNorm(row[:d], row[:d], norm, op.Eps)
		}
		rope.halfSplit(r, row[:op.Rope.Dim])
	}
}

func (b *Backend) runGQAAttend(op *backend.GQAAttend) {
	p := &b.phases.gqa
	*p = gqaPhase{b, op, b.mat(op.Q), b.mat(op.Dst)}
	b.pool.run(len(b.active)*op.KVHeads, p)
}

// gqaPhase attends with the heads that share a key head, a row and key head a
// task.
type gqaPhase struct {
	b      *Backend
	op     *backend.GQAAttend
	q, dst mat
}

func (p *gqaPhase) task(k *worker, task int) {
	b, op, d := p.b, p.op, p.op.HeadDim
	r, kv, group := b.active[task/op.KVHeads], task%op.KVHeads, op.Heads/op.KVHeads
	list, _ := b.listOf(0, r)
	b.attend(k, r, list, heads{
		q: p.q.row(r, op.Heads*d), out: p.dst.row(r, op.Heads*d),
		first: kv * group, last: (kv + 1) * group,
		qWidth: d, outWidth: d, outStride: d, keyOff: kv * d,
		kPlane: op.KPlane, vPlane: op.VPlane, scale: op.Scale,
	})
}
