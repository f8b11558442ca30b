package oracle

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// LoadRounded is LoadWeight for a weight whose products round their other operand
// to 8 bits, as a backend does that computes with weights of 8 or 4 bits.
func (o *Oracle) LoadRounded(v backend.View) (backend.Weight, error) {
	w, err := o.LoadWeight(v)
	if err == nil {
		o.rounded[w] = true
	}
	return w, err
}

// LoadRoundedKVB is LoadRounded for kv_b: attention rounds the part of each head's
// query that W_uk multiplies, and each head's latent output.
func (o *Oracle) LoadRoundedKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	w, err := o.LoadKVB(v, heads, nope, vdim)
	if err == nil {
		o.rounded[w] = true
	}
	return w, err
}

// times computes W x, of a rounded x where the weight asks for it.
func (p *pass) times(w backend.Weight, x []float64) []float64 {
	if p.o.rounded[w] {
		x = round8(x)
	}
	return apply(p.weight(w), x)
}

// round8 rounds groups of 32 elements to the nearest multiple, ties to even, of a
// 127th of the group's largest magnitude. A group with an element that is not
// finite becomes NaN.
func round8(x []float64) []float64 {
	const group = 32
	y := make([]float64, len(x))
	for first := 0; first < len(x); first += group {
		part := x[first:min(first+group, len(x))]
		step := 0.0
		for _, v := range part {
			step = math.Max(step, math.Abs(v)/127) // NaN stays
		}
		for i, v := range part {
			switch {
			case !finite(part):
				y[first+i] = math.NaN()
			case step > 0:
				y[first+i] = math.RoundToEven(v/step) * step
			}
		}
	}
	return y
}
