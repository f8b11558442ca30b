package cpu

import (
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// rmsNorm writes weight * (x * (mean(x^2) + eps)^(-1/2)) to dst, which may be x.
// Source: arXiv 1910.07467.
func rmsNorm(dst, x, weight []float32, eps float32) {
	mean := kernel.Dot(x, x) / float32(len(x))
	kernel.ScaleMul(dst, x, float32(1/math.Sqrt(float64(mean+eps))), weight)
}

// layerNorm normalises x in place to weight * (x - mean) / sqrt(var + eps) + bias.
func layerNorm(x, weight, bias []float32, eps float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	var sq float64
	for _, v := range x {
		d := float64(v) - mean
		sq += float64(d * d)
	}
	inv := 1 / math.Sqrt(sq/float64(len(x))+float64(eps))
	for i, v := range x {
		n := float32((float64(v) - mean) * inv)
		x[i] = float32(weight[i]*n) + bias[i]
	}
}

// rotary holds the cosines and sines of the rows of a step.
type rotary struct {
	half     int
	cos, sin []float32 // [R, half]
}

// rope prepares the angles of every active row. They follow the published
// arithmetic: f32 inverse frequency, f32 product, then an exact range reduction.
func (b *Backend) rope(p backend.Rope) rotary {
	half := p.Dim / 2
	t := b.ropes[p]
	if t == nil {
		t = &ropeTable{inv: make([]float32, half)}
		for i := range t.inv {
			t.inv[i] = 1 / float32(math.Pow(p.Theta, float64(float32(2*i)/float32(p.Dim))))
		}
		b.ropes[p] = t
	}
	cos, sin := grow(&t.cos, len(b.step.Pos)*half), grow(&t.sin, len(b.step.Pos)*half)
	if t.epoch != b.starts {
		for _, r := range b.active {
			for i, f := range t.inv {
				s, c := math.Sincos(float64(float32(b.step.Pos[r]) * f))
				cos[int(r)*half+i], sin[int(r)*half+i] = float32(c), float32(s)
			}
		}
		t.epoch = b.starts
	}
	return rotary{half, cos, sin}
}

// ropeTable caches the angles of a step, which every layer shares.
type ropeTable struct {
	inv      []float32
	cos, sin []float32
	epoch    uint64
}

// interleaved rotates the pairs (x[2i], x[2i+1]).
func (t rotary) interleaved(r int32, x []float32) {
	cos, sin := t.cos[int(r)*t.half:], t.sin[int(r)*t.half:]
	for i := range t.half {
		a, b := x[2*i], x[2*i+1]
		x[2*i] = float32(a*cos[i]) - float32(b*sin[i])
		x[2*i+1] = float32(b*cos[i]) + float32(a*sin[i])
	}
}

// halfSplit rotates the pairs (x[i], x[i+half]).
func (t rotary) halfSplit(r int32, x []float32) {
	cos, sin := t.cos[int(r)*t.half:], t.sin[int(r)*t.half:]
	for i := range t.half {
		a, b := x[i], x[i+t.half]
		x[i] = float32(a*cos[i]) - float32(b*sin[i])
		x[i+t.half] = float32(b*cos[i]) + float32(a*sin[i])
	}
}
