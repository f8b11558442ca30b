package cpu

import "github.com/cofferdam-ml/cofferdam/internal/backend"

func (b *Backend) runGQAProject(op *backend.GQAProject) {
	x, q := b.mat(op.X), b.mat(op.Dst)
	d, width := op.HeadDim, op.KVHeads*op.HeadDim
	raw, ok := b.temp(&b.tmp.latent, 2*b.step.Rows()*width)
	if !ok {
		return
	}
	keys, vals := mat{raw, width}, mat{raw[b.step.Rows()*width:], width}

	b.normRows(x, b.mat(op.H), b.vector(op.Norm), op.Eps)
	b.linear(q, x, b.active, b.weight(op.Q), b.vector(op.QBias), false)
	b.linear(keys, x, b.active, b.weight(op.K), b.vector(op.KBias), false)
	b.linear(vals, x, b.active, b.weight(op.V), b.vector(op.VBias), false)

	rope := b.rope(op.Rope)
	qNorm, kNorm := b.vector(op.QNorm), b.vector(op.KNorm)
	b.pool.run(len(b.active), func(_ *worker, i int) {
		r := b.active[i]
		each := func(row, norm []float32) {
			for ; len(row) > 0; row = row[d:] {
				if norm != nil {
					rmsNorm(row[:d], row[:d], norm, op.Eps)
				}
				rope.halfSplit(r, row[:op.Rope.Dim])
			}
		}
		each(q.row(r, op.Heads*d), qNorm)
		each(keys.row(r, width), kNorm)
		seq, pos := b.step.Seq[r], int(b.step.Pos[r])
		b.pages.write(b.step, seq, pos, op.KPlane, keys.row(r, width))
		b.pages.write(b.step, seq, pos, op.VPlane, vals.row(r, width))
	})
}

func (b *Backend) runGQAAttend(op *backend.GQAAttend) {
	q, dst := b.mat(op.Q), b.mat(op.Dst)
	d, group := op.HeadDim, op.Heads/op.KVHeads
	b.pool.run(len(b.active)*op.KVHeads, func(k *worker, task int) {
		r, kv := b.active[task/op.KVHeads], task%op.KVHeads
		list, _ := b.listOf(0, r)
		b.attend(k, r, list, heads{
			q: q.row(r, op.Heads*d), out: dst.row(r, op.Heads*d),
			first: kv * group, last: (kv + 1) * group,
			qWidth: d, outWidth: d, outStride: d, keyOff: kv * d,
			kPlane: op.KPlane, vPlane: op.VPlane, scale: op.Scale,
		})
	})
}
