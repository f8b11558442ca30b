package cpu

import (
	"fmt"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// latentUp is kv_b split by head. Absorption contracts over nope, so W_uk is
// kept transposed, [heads][latent][nope] f32, dequantised first because FP8
// blocks straddle heads. W_uv needs no copy: its rows contract over the latent
// and are read where they are stored.
type latentUp struct {
	nope, v int
	ukT     *weight // row h*latent+l is column l of W_uk[h]
}

// LoadKVB implements backend.Backend.
func (b *Backend) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if err := v.Check(); err != nil {
		return 0, err
	}
	if v.Rows != heads*(nope+vdim) {
		return 0, fmt.Errorf("cpu: weight %s: %d rows, want %d heads of %d+%d", v.Name, v.Rows, heads, nope, vdim)
	}
	latent := v.Cols
	region, err := offheap.Alloc(4 * heads * latent * nope)
	if err != nil {
		return 0, fmt.Errorf("cpu: weight %s: %w", v.Name, err)
	}
	b.regions = append(b.regions, region)
	w := newWeight(v)
	ukT := region.Float32s()
	up := &latentUp{nope: nope, v: vdim, ukT: newWeight(backend.View{
		Name: v.Name, Rows: heads * latent, Cols: nope, DType: backend.F32, Data: region.Bytes(),
	})}
	row := make([]float32, latent)
	err = guard("load "+v.Name, func() {
		for h := range heads {
			dst := ukT[h*latent*nope:]
			for n := range nope {
				for l, x := range w.row(h*(nope+vdim)+n, row) {
					dst[l*nope+n] = x
				}
			}
		}
	})
	if err != nil {
		return 0, err
	}
	w.heads = up
	b.weights = append(b.weights, w)
	return backend.Weight(len(b.weights) - 1), nil
}

// uv returns the stored row of output j of head h.
func (u *latentUp) uv(h, j int) int { return h*(u.nope+u.v) + u.nope + j }
