package cpu

import (
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// Absorbed attention multiplies each query with whole latent rows: 2*Latent+Rope
// multiplications a key and head. Expanded attention first makes every head's own
// keys and values, K = W_uk[h] c and V = W_uv[h] c, which pays where many rows of a
// sequence share them: Nope+Rope+V a key. For the rows' own keys that is no extra
// work, since absorption multiplies each row with the same matrices.

const (
	// expandBlock is how many keys of a head are expanded at a time.
	expandBlock = 128
	// expandTile is how many rows are scored against a block at a time.
	expandTile = 64
)

// expandJob is rows of one sequence, in ascending order of position, that each
// attend over every key up to their own.
type expandJob struct {
	rows []int32
	keys int // up to the last row's own
}

// runExpanded attends for the rows for which expanding pays, and returns the others.
func (b *Backend) runExpanded(op *backend.MLAAttend) (rest []int32) {
	p := &b.phases.expand
	*p = expandPhase{b: b, op: op, kvb: b.weight(op.KVB).heads, q: b.mat(op.Q), dst: b.mat(op.Dst), jobs: p.jobs[:0]}
	rest = b.absorbed[:0]
	for rows := b.active; len(rows) > 0; {
		n := 1
		for n < len(rows) && b.step.Seq[rows[n]] == b.step.Seq[rows[0]] {
			n++
		}
		seq := rows[:n]
		rows = rows[n:]
		dense := b.denseRows(op.Sel, seq)
		if first := int(b.step.Pos[seq[0]]); !expanding(op, dense, first) {
			dense = 0
		}
		if dense > 0 {
			p.jobs = append(p.jobs, expandJob{seq[:dense], int(b.step.Pos[seq[dense-1]]) + 1})
		}
		rest = append(rest, seq[dense:]...)
	}
	b.absorbed = rest
	b.pool.run(len(p.jobs)*op.Heads, p)
	return rest
}

// denseRows returns how many of a sequence's rows, from the first on, attend over
// every key that they see.
func (b *Backend) denseRows(sel backend.Selection, rows []int32) int {
	for i, r := range rows {
		if l, ok := b.listOf(sel, r); !ok || l.n != int(b.step.Pos[r])+1 {
			return i
		}
	}
	return len(rows)
}

// expanding reports whether rows that stand after [before] older keys save more than
// the expansion of those keys costs.
func expanding(op *backend.MLAAttend, rows, before int) bool {
	saved := 2*op.Latent - op.Nope - op.V
	return rows > 1 && saved > 0 && rows*(before+rows/2)*saved >= before*op.Latent*(op.Nope+op.V)
}

// expandPhase computes o_h = softmax([K | k] q * scale) V, a job and head a task.
type expandPhase struct {
	b      *Backend
	op     *backend.MLAAttend
	kvb    *latentUp
	q, dst mat
	jobs   []expandJob
}

// expanded is a worker's room for one head: its matrices with the latent first, and
// a block of its keys and values.
type expanded struct {
	uk, uv     []float32 // [latent, nope], [latent, v]
	keys, vals []float32 // [expandBlock, nope+rope up to Lanes], [expandBlock, v]
}

func (p *expandPhase) task(k *worker, task int) {
	b, op := p.b, p.op
	job, h := p.jobs[task/op.Heads], task%op.Heads
	k.head(p.kvb, h, op)
	total := &k.total
	total.size(len(job.rows), op.V)
	clear(total.out)
	for i := range total.max {
		total.max[i], total.sum[i] = negInf, 0
	}
	list := keyList{n: job.keys}
	for at, first := 0, 0; at < job.keys; at += expandBlock {
		m := min(expandBlock, job.keys-at)
		finite := k.expand(b, job.rows[0], list, at, m, op)
		for int(b.step.Pos[job.rows[first]]) < at {
			first++ // the row sees no key of this block
		}
		for i := first; i < len(job.rows); i += expandTile {
			if b.pool.stopped() {
				return
			}
			p.attend(k, job.rows, h, i, min(i+expandTile, len(job.rows)), at, m, finite)
		}
	}
	for i, r := range job.rows {
		out, inv := p.dst.row(r, op.Heads*op.V)[h*op.V:][:op.V], 1/total.sum[i]
		for j, v := range total.head(i) {
			out[j] = v * inv
		}
	}
}

// head decodes a head's matrices.
func (k *worker) head(kvb *latentUp, h int, op *backend.MLAAttend) {
	e := &k.expanded
	uk, uv := grow(&e.uk, op.Latent*op.Nope), grow(&e.uv, op.Latent*op.V)
	for l := range op.Latent {
		dst := uk[l*op.Nope:][:op.Nope]
		copy(dst, kvb.ukT.row(kvb.uk(h)+l, dst))
	}
	row := grow(&k.weights, op.Latent)
	for j := range op.V {
		for l, w := range kvb.uv.row(kvb.v(h)+j, row) {
			uv[l*op.V+j] = w
		}
	}
}

// expand makes the keys and values of m positions from [at] on of the sequence of row
// r, and reports whether all values are finite.
func (k *worker) expand(b *Backend, r int32, list keyList, at, m int, op *backend.MLAAttend) bool {
	e, width := &k.expanded, op.Latent+op.Rope
	rows := planeRows{pages: b.pages, step: b.step, seq: b.step.Seq[r], plane: op.Plane, list: list, at: at, width: width}
	rows.gather(&k.keys, m)
	stride := roundUp(op.Nope+op.Rope, lanes)
	keys, vals := grow(&e.keys, expandBlock*stride), grow(&e.vals, expandBlock*op.V)
	clear(keys)
	kernel.Weigh(keys, stride, rows.data, rows.stride, m, e.uk, op.Nope, op.Latent, op.Nope, true)
	kernel.Weigh(vals, op.V, rows.data, rows.stride, m, e.uv, op.V, op.Latent, op.V, false)
	for j := range m {
		copy(keys[j*stride+op.Nope:], rows.data[j*rows.stride+op.Latent:][:op.Rope])
	}
	vals = vals[:m*op.V]
	var sum float32
	for _, v := range vals {
		sum += v * 0 // a NaN from anything that is not finite
	}
	return sum == 0
}

// attend adds a block of m keys from [at] on to the outputs of rows [i0, i1).
func (p *expandPhase) attend(k *worker, rows []int32, h, i0, i1, at, m int, finite bool) {
	op, e := p.op, &k.expanded
	tile, head := rows[i0:i1], op.Nope+op.Rope
	scores, stride := grow(&k.scores, len(tile)*expandBlock), roundUp(head, lanes)
	q := p.q.from(h * head)
	for j := 0; j < m; j += manyRows {
		groups := min(manyRows, roundUp(m-j, groupRows)) / groupRows
		each := len(tile) * groupRows
		acc := grow(&k.sums, groups*each)
		clear(acc)
		k.multiply(acc, each, e.keys[j*stride:], stride, groups, q, tile, head, 0, head)
		for g := range groups {
			kernel.Sum4(scores[j+g*groupRows:], expandBlock, acc[g*each:][:each])
		}
	}
	part := &k.block
	part.size(len(tile), op.V)
	padded := roundUp(m, lanes)
	for i, r := range tile {
		s := scores[i*expandBlock:][:padded]
		seen := min(m, int(p.b.step.Pos[r])-at+1)
		for j := seen; j < padded; j++ {
			s[j] = negInf
		}
		part.max[i], part.sum[i] = kernel.Softmax(s, op.Scale)
		if !finite { // what a row does not see must not reach it as NaN times zero
			kernel.Weigh(part.head(i), op.V, s, expandBlock, 1, e.vals, op.V, seen, op.V, false)
		}
	}
	if finite {
		kernel.Weigh(part.out, op.V, scores, expandBlock, len(tile), e.vals, op.V, m, op.V, false)
	}
	k.total.add(i0, part)
}
