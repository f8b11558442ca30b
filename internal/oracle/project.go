package oracle

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// apply computes y = W x for a weight [out, in].
func apply(w mat.Matrix, x []float64) []float64 {
	out, _ := w.Dims()
	y := mat.NewVecDense(out, nil)
	y.MulVec(w, mat.NewVecDense(len(x), x))
	return y.RawVector().Data
}

// rmsNorm computes x * (mean(x^2) + eps)^(-1/2) * weight (arXiv 1910.07467).
func rmsNorm(x, weight []float64, eps float32) []float64 {
	mean := floats.Dot(x, x) / float64(len(x))
	y := make([]float64, len(x))
	floats.ScaleTo(y, 1/math.Sqrt(mean+float64(eps)), x)
	floats.Mul(y, weight)
	return y
}

// layerNorm computes (x - mean) * (var + eps)^(-1/2) * weight + bias with the
// population variance (arXiv 1607.06450).
func layerNorm(x, weight, bias []float64, eps float64) []float64 {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	y := append([]float64{}, x...)
	floats.AddConst(-mean, y)
	variance := floats.Dot(y, y) / float64(len(y))
	floats.Scale(1/math.Sqrt(variance+eps), y)
	floats.Mul(y, weight)
	floats.Add(y, bias)
	return y
}

// angle of pair i at a position (arXiv 2104.09864): pos / theta^(2i/dim), where the
// exponent, the power, its inverse and the product are each rounded to f32, as
// in the published models; only sine and cosine are exact.
func angle(rope backend.Rope, pos int32, i int) float64 {
	exponent := float32(2*i) / float32(rope.Dim)
	inverse := 1 / float32(math.Pow(rope.Theta, float64(exponent)))
	return float64(float32(pos) * inverse)
}

// rotate turns one pair by an angle.
func rotate(a, b *float64, angle float64) {
	sin, cos := math.Sincos(angle)
	*a, *b = *a*cos-*b*sin, *b*cos+*a*sin
}

// ropeInterleaved rotates the pairs (x[2i], x[2i+1]) in place: GLM-5 attention
// and indexer.
func ropeInterleaved(x []float64, rope backend.Rope, pos int32) {
	for i := range rope.Dim / 2 {
		rotate(&x[2*i], &x[2*i+1], angle(rope, pos, i))
	}
}

// ropeHalfSplit rotates the pairs (x[i], x[i+Dim/2]) in place: GLM-4.5 attention.
func ropeHalfSplit(x []float64, rope backend.Rope, pos int32) {
	for i := range rope.Dim / 2 {
		rotate(&x[i], &x[i+rope.Dim/2], angle(rope, pos, i))
	}
}

// heads cuts a row into equal parts.
func heads(x []float64, n int) [][]float64 {
	if n <= 0 || len(x)%n != 0 {
		panic(fmt.Sprintf("%d elements do not make %d heads", len(x), n))
	}
	width := len(x) / n
	out := make([][]float64, n)
	for h := range out {
		out[h] = x[h*width : (h+1)*width]
	}
	return out
}

func (p *pass) embed(op *backend.Embed) {
	for _, r := range p.live {
		p.put(op.Dst, r, p.weight(op.Table).RawRowView(int(p.step.IDs[r])), false)
	}
}

// mlaProject makes the queries and the compressed row of multi-head latent
// attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
func (p *pass) mlaProject(op *backend.MLAProject) {
	for _, r := range p.live {
		pos := p.step.Pos[r]
		x := rmsNorm(p.row(op.H, r), p.vector(op.Norm), op.Eps)
		cq := rmsNorm(p.times(op.QA, x), p.vector(op.QNorm), op.LatentEps)

		q := p.times(op.QB, cq)
		for _, head := range heads(q, op.Heads) {
			ropeInterleaved(head[op.Nope:], op.Rope, pos)
		}

		kv := p.times(op.KVA, x)
		c := rmsNorm(kv[:op.Latent], p.vector(op.KVNorm), op.LatentEps)
		k := kv[op.Latent:]
		ropeInterleaved(k, op.Rope, pos)

		p.setKey(r, op.Plane, append(c, k...))
		p.put(op.X, r, x, false)
		p.put(op.CQ, r, cq, false)
		p.put(op.Q, r, q, false)
	}
}

// gqaProject makes queries, keys and values of grouped-query attention
// (arXiv 2305.13245).
func (p *pass) gqaProject(op *backend.GQAProject) {
	for _, r := range p.live {
		pos := p.step.Pos[r]
		x := rmsNorm(p.row(op.H, r), p.vector(op.Norm), op.Eps)
		q := p.affine(op.Q, op.QBias, x)
		k := p.affine(op.K, op.KBias, x)
		v := p.affine(op.V, op.VBias, x)

		p.normAndRotate(heads(q, op.Heads), op.QNorm, op, pos)
		p.normAndRotate(heads(k, op.KVHeads), op.KNorm, op, pos)

		p.setKey(r, op.KPlane, k)
		p.setKey(r, op.VPlane, v)
		p.put(op.X, r, x, false)
		p.put(op.Dst, r, q, false)
	}
}

// normAndRotate applies the per-head norm, if there is one, and then rope.
func (p *pass) normAndRotate(heads [][]float64, norm backend.Weight, op *backend.GQAProject, pos int32) {
	for _, head := range heads {
		if norm != 0 {
			copy(head, rmsNorm(head, p.vector(norm), op.Eps))
		}
		ropeHalfSplit(head[:op.Rope.Dim], op.Rope, pos)
	}
}

// affine computes W x + bias; a zero bias is none.
func (p *pass) affine(w, bias backend.Weight, x []float64) []float64 {
	y := p.times(w, x)
	if bias != 0 {
		floats.Add(y, p.vector(bias))
	}
	return y
}
