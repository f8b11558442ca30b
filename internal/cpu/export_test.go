package cpu

import (
	"encoding/binary"
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// SetScoreBudget lowers how many index scores are held at once.
func (b *Backend) SetScoreBudget(n int) { b.scoreBudget = n }

// Dequantised returns what a packed weight stands for, as f32.
func (b *Backend) Dequantised(h backend.Weight) backend.View {
	w := b.weight(h)
	return f32View(w.Name, w.Rows, w.Cols, func(r int, dst []float32) { w.row(r, dst) })
}

// DequantisedKVB is Dequantised for a packed kv_b.
func (b *Backend) DequantisedKVB(h backend.Weight, nope, vdim int) backend.View {
	w := b.weight(h)
	u := w.heads
	column := make([]float32, nope)
	return f32View(w.Name, w.Rows, w.Cols, func(r int, dst []float32) {
		head, n := r/(nope+vdim), r%(nope+vdim)
		if n >= nope {
			u.uv.row(u.v(head)+n-nope, dst)
			return
		}
		for l := range dst {
			dst[l] = u.ukT.row(u.uk(head)+l, column)[n]
		}
	})
}

func f32View(name string, rows, cols int, row func(r int, dst []float32)) backend.View {
	v := backend.View{Name: name, Rows: rows, Cols: cols, DType: backend.F32}
	values := make([]float32, cols)
	for r := range rows {
		row(r, values)
		for _, x := range values {
			v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(x))
		}
	}
	return v
}
