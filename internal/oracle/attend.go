package oracle

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// mlaAttend is MLA in the naive form (arXiv 2405.04434). Each latent row [c | k_pe] becomes
// a key [W_uk c | k_pe] and a value W_uv c of every head.
func (p *pass) mlaAttend(op *backend.MLAAttend) {
	kvb := p.weight(op.KVB)
	_, latent := kvb.Dims()
	for _, r := range p.live {
		positions, ok := p.keysOf(op.Sel, r)
		if !ok {
			p.put(op.Dst, r, make([]float64, op.Heads*op.V), false)
			continue
		}
		q := heads(p.row(op.Q, r), op.Heads)
		out := make([]float64, 0, op.Heads*op.V)
		for h := range op.Heads {
			first := h * (op.Nope + op.V)
			up := kvb.Slice(first, first+op.Nope, 0, latent)
			uv := kvb.Slice(first+op.Nope, first+op.Nope+op.V, 0, latent)
			if !p.o.rounded[op.KVB] {
				keys, values := p.expand(op.Plane, int(p.step.Seq[r]), positions, up, uv)
				out = append(out, p.attend(r, q[h], keys, values, op.Scale)...)
				continue
			}
			// A rounded sum of latent rows is not a sum of rounded ones.
			keys, latents := p.expand(op.Plane, int(p.step.Seq[r]), positions, up, nil)
			query := append(round8(q[h][:op.Nope]), q[h][op.Nope:]...)
			out = append(out, apply(uv, round8(p.attend(r, query, keys, latents, op.Scale)))...)
		}
		p.put(op.Dst, r, out, false)
	}
}

// expand makes one head's keys and values of latent rows; without uv the values are
// the latent rows.
func (p *pass) expand(plane, seq int, positions []int, up, uv mat.Matrix) (keys, values [][]float64) {
	_, latent := up.Dims()
	for _, pos := range positions {
		row := p.key(seq, plane, pos)
		c, rope := row[:latent], row[latent:]
		keys = append(keys, append(apply(up, c), rope...))
		if uv != nil {
			c = apply(uv, c)
		}
		values = append(values, c)
	}
	return keys, values
}

// keysOf lists the positions that a row attends over. A selection is checked
// before any of it is used: every position in [0, the row's own], strictly
// ascending. Without a usable list the row fails.
func (p *pass) keysOf(sel backend.Selection, r int) (positions []int, ok bool) {
	if sel == 0 {
		return p.visible(r), true
	}
	list := p.o.selections[sel].lists[r]
	for i, pos := range list {
		if pos < 0 || pos > p.step.Pos[r] || i > 0 && pos <= list[i-1] {
			p.fail(r, backend.BadSelection)
			return nil, false
		}
		positions = append(positions, int(pos))
	}
	if len(positions) == 0 {
		p.fail(r, backend.NonFinite)
		return nil, false
	}
	return positions, true
}

// gqaAttend is grouped-query attention (arXiv 2305.13245).
func (p *pass) gqaAttend(op *backend.GQAAttend) {
	for _, r := range p.live {
		var keys, values [][][]float64 // [position][key head][HeadDim]
		for _, pos := range p.visible(r) {
			keys = append(keys, heads(p.key(int(p.step.Seq[r]), op.KPlane, pos), op.KVHeads))
			values = append(values, heads(p.key(int(p.step.Seq[r]), op.VPlane, pos), op.KVHeads))
		}
		var out []float64
		for h, q := range heads(p.row(op.Q, r), op.Heads) {
			g := h / (op.Heads / op.KVHeads)
			var k, v [][]float64
			for t := range keys {
				k = append(k, keys[t][g])
				v = append(v, values[t][g])
			}
			out = append(out, p.attend(r, q, k, v, op.Scale)...)
		}
		p.put(op.Dst, r, out, false)
	}
}

// attend computes sum over t of softmax(q . k_t * scale)_t v_t. A NaN anywhere
// among the keys makes the result NaN: a key that nobody wrote must not pass
// unseen. The row fails when no key has a score above -inf.
func (p *pass) attend(r int, q []float64, keys, values [][]float64, scale float32) []float64 {
	scores := make([]float64, len(keys))
	for t, k := range keys {
		scores[t] = floats.Dot(q, k) * float64(scale)
	}
	o := make([]float64, len(values[0]))
	if best := finiteMax(scores); math.IsInf(best, -1) {
		p.fail(r, backend.NonFinite)
		return o
	}
	for t, weight := range softmax(scores) {
		floats.AddScaled(o, weight, values[t])
	}
	return o
}

// finiteMax is the largest value that is not NaN, or -inf.
func finiteMax(x []float64) float64 {
	best := math.Inf(-1)
	for _, v := range x {
		if v > best {
			best = v
		}
	}
	return best
}

// softmax computes e^(x_i - max) / sum.
func softmax(x []float64) []float64 {
	best := finiteMax(x)
	y := make([]float64, len(x))
	sum := 0.0
	for i, v := range x {
		y[i] = math.Exp(v - best)
		sum += y[i]
	}
	for i := range y {
		y[i] /= sum
	}
	return y
}
