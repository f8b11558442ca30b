package cpu

import (
	"math"
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

func (b *Backend) runIndexProject(op *backend.IndexProject) {
	d := op.HeadDim
	q, w := b.mat(op.Q), b.mat(op.W)
	wqb, wk, proj := b.weight(op.WQB), b.weight(op.WK), b.weight(op.WeightsProj)
	b.linear(q, b.lines(&b.codes.latent, b.mat(op.CQ), b.active, wqb), wqb, nil, false)
	x := b.lines(&b.codes.x, b.mat(op.X), b.active, wk, proj)
	b.linear(w, x, proj, nil, false)
	raw, ok := b.temp(&b.tmp.latent, b.step.Rows()*d)
	if !ok {
		return
	}
	keys := mat{raw, d}
	b.linear(keys, x, wk, nil, false)

	p := &b.phases.indexWrite
	*p = indexWritePhase{b, op, q, w, keys, b.vector(op.KNorm), b.vector(op.KNormBias), b.rope(op.Rope)}
	b.pool.run(len(b.active), p)
}

// indexWritePhase rotates the index queries of a row and writes its index key.
type indexWritePhase struct {
	b          *Backend
	op         *backend.IndexProject
	q, w, keys mat
	norm, bias []float32
	rope       rotary
}

func (p *indexWritePhase) task(_ *worker, i int) {
	b, op, rope, d, r := p.b, p.op, p.rope, p.op.HeadDim, p.b.active[i]
	query := p.q.row(r, op.Heads*d)
	for h := range op.Heads {
		rope.interleaved(r, query[h*d:(h+1)*d])
	}
	scale(p.w.row(r, op.Heads), float32(1/math.Sqrt(float64(op.Heads))))
	key := p.keys.row(r, d)
	layerNorm(key, p.norm, p.bias, backend.IndexNormEps)
	rope.interleaved(r, key)
	b.pages.write(b.step, b.step.Seq[r], int(b.step.Pos[r]), op.Plane, key)
}

const (
	// scoreTile is how many keys one task scores.
	scoreTile = 256
	// scoreBudget bounds the scores held at once; rows are taken in groups that
	// fit it, a single row may exceed it.
	scoreBudget = 1 << 22
)

// keyRoom divides the keys that scratch has room for: a context gets longer by a key
// a step, and its scratch need not.
const keyRoom = 4096

func (b *Backend) runIndexSelect(op *backend.IndexSelect) {
	sel := b.selection(op.Dst)
	rows := b.active
	for len(rows) > 0 {
		// A group of rows whose visible keys fit the budget.
		n, total := 0, 0
		for n < len(rows) {
			v := int(b.step.Pos[rows[n]]) + 1
			if n > 0 && total+v > b.scoreBudget {
				break
			}
			total += v
			n++
		}
		b.selectRows(op, sel, rows[:n], total)
		rows = rows[n:]
		if b.pool.stopped() {
			return
		}
	}
}

func (b *Backend) selectRows(op *backend.IndexSelect, sel selection, rows []int32, total int) {
	scores, ok := b.temp(&b.tmp.scores, roundUp(total, keyRoom))
	if !ok {
		return
	}
	p := &b.phases.score
	*p = scorePhase{b, op, b.mat(op.Q), b.mat(op.W), rows, scores, grow(&p.tiles, len(rows)+1), grow(&p.start, len(rows)+1)}
	p.tiles[0], p.start[0] = 0, 0
	for i, r := range rows {
		v := int(b.step.Pos[r]) + 1
		p.start[i+1] = p.start[i] + v
		p.tiles[i+1] = p.tiles[i]
		if v > op.K {
			p.tiles[i+1] += (v + scoreTile - 1) / scoreTile
		}
	}
	b.pool.run(p.tiles[len(rows)], p)
	choose := &b.phases.choose
	*choose = choosePhase{p, sel}
	b.pool.run(len(rows), choose)
}

// scorePhase scores the keys of rows tile by tile.
type scorePhase struct {
	b      *Backend
	op     *backend.IndexSelect
	q, w   mat
	rows   []int32
	scores []float32
	tiles  []int // first tile of each row
	start  []int // first score of each row
}

func (p *scorePhase) task(k *worker, task int) {
	i, found := slices.BinarySearch(p.tiles, task)
	if !found {
		i--
	}
	for p.tiles[i+1] == p.tiles[i] { // rows that keep everything have no tile
		i++
	}
	b, op, r := p.b, p.op, p.rows[i]
	t0 := (task - p.tiles[i]) * scoreTile
	t1 := min(t0+scoreTile, int(b.step.Pos[r])+1)
	b.score(k, op, p.q.row(r, op.Heads*op.HeadDim), p.w.row(r, op.Heads), r, t0, t1, p.scores[p.start[i]:])
}

// choosePhase selects the best keys of a row.
type choosePhase struct {
	*scorePhase
	sel selection
}

func (p *choosePhase) task(k *worker, i int) {
	r, sel := p.rows[i], p.sel
	dst := sel.pos[int(r)*sel.k : (int(r)+1)*sel.k]
	n, usable := k.topK(p.scores[p.start[i]:p.start[i+1]], dst[:p.op.K])
	sel.count[r] = int32(n)
	if !usable {
		p.b.result.Health[r] |= backend.NonFinite
	}
}

// score writes the index scores of keys [t0, t1); t0 is a multiple of groupRows.
// The scale HeadDim^(-1/2) is applied inside the ReLU, as published.
func (b *Backend) score(k *worker, op *backend.IndexSelect, q, w []float32, r int32, t0, t1 int, scores []float32) {
	d := op.HeadDim
	s := float32(1 / math.Sqrt(float64(d)))
	keys := planeRows{pages: b.pages, step: b.step, seq: b.step.Seq[r], plane: op.Plane, at: t0, width: d}
	m := t1 - t0
	if !keys.together() {
		keys.gather(&k.keys, m)
	}
	for j := 0; j < m; j += groupRows {
		group, stride := keys.group(k, j, m)
		products := k.small(group, stride, mat{q, d}, op.Heads, d)
		kernel.ReLUSum(k.four[:], products, w, s)
		copy(scores[t0+j:t1], k.four[:])
	}
}

// topK writes the positions of the best len(dst) scores in ascending order and
// returns how many there are: larger first, then lower position, -0 as +0, NaN
// never; usable is false if there was one. When everything fits, everything is
// taken and scores are not looked at.
func (k *worker) topK(scores []float32, dst []int32) (n int, usable bool) {
	if len(scores) <= len(dst) {
		for t := range scores {
			dst[t] = int32(t)
		}
		return len(scores), true
	}
	rank := grow(&k.rank, roundUp(len(scores), keyRoom))[:0]
	for t, s := range scores {
		if s == s {
			rank = append(rank, rankKey(s, t))
		}
	}
	n = min(len(dst), len(rank))
	keepLargest(rank, n)
	for i, key := range rank[:n] {
		dst[i] = rankedIndex(key)
	}
	slices.Sort(dst[:n])
	return n, len(rank) == len(scores)
}
