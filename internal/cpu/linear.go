package cpu

import "github.com/cofferdam-ml/cofferdam/internal/backend"

// mat is a row-major matrix: row r starts at r*stride.
type mat struct {
	data   []float32
	stride int
}

func (m mat) row(r int32, width int) []float32 {
	at := int(r) * m.stride
	return m.data[at : at+width : at+width]
}

// colTile is how many weight rows one task decodes and multiplies at a time. Eight
// of the longest fit the second-level cache, so each activation row is read from
// further away once for eight products.
const colTile = 8

// linear computes dst[rows[i]] = W x[rows[i]] + bias, or adds it, for columns of
// the whole weight. rows lists the rows that take part.
func (b *Backend) linear(dst, x mat, rows []int32, w *weight, bias []float32, add bool) {
	b.pool.run((w.Rows+colTile-1)/colTile, func(k *worker, task int) {
		n0 := task * colTile
		n1 := min(n0+colTile, w.Rows)
		tile := k.decode(w, n0, n1)
		for _, r := range rows {
			in, out := x.row(r, w.Cols), dst.row(r, w.Rows)
			for n := n0; n < n1; n++ {
				y := dot(in, tile[n-n0])
				if bias != nil {
					y += bias[n]
				}
				if add {
					y += out[n]
				}
				out[n] = y
			}
		}
	})
}

// decode returns weight rows [n0, n1) as f32.
func (k *worker) decode(w *weight, n0, n1 int) (tile [colTile][]float32) {
	buf := grow(&k.weights, 2*colTile*w.Cols)[:colTile*w.Cols]
	return decodeInto(buf, w, n0, n1)
}

// decode2 returns the same rows of two equally shaped weights.
func (k *worker) decode2(a, b *weight, n0, n1 int) (ta, tb [colTile][]float32) {
	buf := grow(&k.weights, 2*colTile*a.Cols)
	half := colTile * a.Cols
	return decodeInto(buf[:half], a, n0, n1), decodeInto(buf[half:], b, n0, n1)
}

func decodeInto(buf []float32, w *weight, n0, n1 int) (tile [colTile][]float32) {
	for n := n0; n < n1; n++ {
		i := n - n0
		tile[i] = w.row(n, buf[i*w.Cols:(i+1)*w.Cols])
	}
	return tile
}

func (b *Backend) runLinear(op *backend.Linear) {
	b.linear(b.mat(op.Dst), b.mat(op.X), b.active, b.weight(op.W), b.vector(op.Bias), op.Add)
}
