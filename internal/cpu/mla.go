package cpu

import "github.com/cofferdam-ml/cofferdam/internal/backend"

func (b *Backend) runMLAProject(op *backend.MLAProject) {
	x, cq, q := b.mat(op.X), b.mat(op.CQ), b.mat(op.Q)
	width := op.Latent + op.Rope.Dim
	raw, ok := b.temp(&b.tmp.latent, b.step.Rows()*width)
	if !ok {
		return
	}
	kv := mat{raw, width}
	qNorm, kvNorm := b.vector(op.QNorm), b.vector(op.KVNorm)

	b.normRows(x, b.mat(op.H), b.vector(op.Norm), op.Eps)
	b.linear(cq, x, b.active, b.weight(op.QA), nil, false)
	b.normRows(cq, cq, qNorm, op.LatentEps)
	b.linear(q, cq, b.active, b.weight(op.QB), nil, false)
	b.linear(kv, x, b.active, b.weight(op.KVA), nil, false)

	rope := b.rope(op.Rope)
	head := op.Nope + op.Rope.Dim
	b.pool.run(len(b.active), func(_ *worker, i int) {
		r := b.active[i]
		query := q.row(r, op.Heads*head)
		for h := range op.Heads {
			rope.interleaved(r, query[h*head+op.Nope:(h+1)*head])
		}
		row := kv.row(r, width)
		rmsNorm(row[:op.Latent], row[:op.Latent], kvNorm, op.LatentEps)
		rope.interleaved(r, row[op.Latent:])
		b.pages.write(b.step, b.step.Seq[r], int(b.step.Pos[r]), op.Plane, row)
	})
}

// absorbRows bounds the rows whose absorbed queries are held at once.
const absorbRows = 32

func (b *Backend) runMLAAttend(op *backend.MLAAttend) {
	width := op.Latent + op.Rope
	for rows := b.active; len(rows) > 0 && !b.pool.stopped(); {
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
	q, dst := b.mat(op.Q), b.mat(op.Dst)
	kvb := b.weight(op.KVB)
	up, latent, width, head := kvb.heads, op.Latent, op.Latent+op.Rope, op.Nope+op.Rope

	// a_h = [W_uk[h]^T q_nope | q_rope]
	b.pool.run(op.Heads, func(k *worker, h int) {
		for l0 := 0; l0 < latent; l0 += maxTile {
			first := h * latent
			t := k.products(&k.y, up.ukT, first+l0, first+min(l0+maxTile, latent), q.from(h*head), rows)
			t.each(func(line, n int, y []float32) {
				copy(a.row(int32(line), a.stride)[h*width+n-first:], y)
			})
		}
		for i, r := range rows {
			copy(a.row(int32(i), a.stride)[h*width+latent:(h+1)*width], q.row(r, q.stride)[h*head+op.Nope:(h+1)*head])
		}
	})

	// u_h = softmax(a_h . [c | k] * scale) c, in place of the row's queries: a
	// head's output is shorter than its query and is written after the last read.
	size := b.headGroup(len(rows), op.Heads)
	groups := (op.Heads + size - 1) / size
	b.pool.run(len(rows)*groups, func(k *worker, task int) {
		i, first := task/groups, task%groups*size
		r := rows[i]
		list, ok := b.listOf(op.Sel, r)
		if !ok && first == 0 {
			b.result.Health[r] |= backend.BadSelection
		}
		line := a.row(int32(i), a.stride)
		b.attend(k, r, list, heads{
			q: line, out: line, first: first, last: min(first+size, op.Heads),
			qWidth: width, outWidth: latent, outStride: width,
			kPlane: op.Plane, vPlane: op.Plane, scale: op.Scale,
		})
		if ok && list.n == 0 && first == 0 {
			b.result.Health[r] |= backend.NonFinite
		}
	})

	// o_h = W_uv[h] u_h
	tasks, per := b.tiles(op.V, op.Heads)
	b.pool.run(op.Heads*tasks, func(k *worker, task int) {
		h, j0 := task/tasks, task%tasks*per
		first := up.uv(h, 0)
		t := k.products(&k.y, kvb, first+j0, first+min(j0+per, op.V), a.from(h*width), k.firstLines(len(rows)))
		t.each(func(line, n int, y []float32) {
			copy(dst.row(rows[line], dst.stride)[h*op.V+n-first:], y)
		})
	})
}
