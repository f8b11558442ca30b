package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// latentUp is kv_b split by head. Absorption contracts over nope, so W_uk is
// kept transposed, dequantised first because FP8 blocks straddle heads.
type latentUp struct {
	ukT, uv *weight
	// Where a head's rows are, which whole panels keep apart: row h*ukStep+l of
	// ukT is column l of W_uk[h], row uvFirst+h*uvStep+j of uv is row j of W_uv[h].
	ukStep, uvFirst, uvStep int
}

// uk returns the first row of head h in ukT.
func (u *latentUp) uk(h int) int { return h * u.ukStep }

// v returns the first row of head h in uv.
func (u *latentUp) v(h int) int { return u.uvFirst + h*u.uvStep }

// LoadKVB implements backend.Backend. W_uk is copied to [heads][latent][nope], in f32
// unless bfloat16 holds it all; W_uv needs no copy, since its rows contract over the
// latent and are read where they are stored.
func (b *Backend) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if err := checkKVB(v, heads, nope, vdim); err != nil {
		return 0, err
	}
	latent := v.Cols
	dtype, size := backend.F32, 4
	if v.DType == backend.BF16 && v.Scales.Rows == 0 {
		dtype, size = backend.BF16, 2
	}
	region, err := offheap.Alloc(size * heads * latent * nope)
	if err != nil {
		return 0, fmt.Errorf("cpu: weight %s: %w", v.Name, err)
	}
	b.regions = append(b.regions, region)
	w, ukT := newWeight(v), region.Bytes()[:size*heads*latent*nope]
	up := &latentUp{uv: w, ukStep: latent, uvFirst: nope, uvStep: nope + vdim}
	up.ukT = newWeight(backend.View{Name: v.Name, Rows: heads * latent, Cols: nope, DType: dtype, Data: ukT})
	row := make([]float32, latent)
	err = guard("load "+v.Name, func() {
		for h := range heads {
			for n := range nope {
				for l, x := range w.row(h*(nope+vdim)+n, row) {
					dst := ukT[size*((h*latent+l)*nope+n):]
					if dtype == backend.BF16 {
						binary.LittleEndian.PutUint16(dst, toBF16(x))
					} else {
						binary.LittleEndian.PutUint32(dst, math.Float32bits(x))
					}
				}
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return b.addWeight(&weight{View: v, heads: up}), nil
}

func checkKVB(v backend.View, heads, nope, vdim int) error {
	if err := v.Check(); err != nil {
		return err
	}
	if v.Rows != heads*(nope+vdim) {
		return fmt.Errorf("cpu: weight %s: %d rows, want %d heads of %d+%d", v.Name, v.Rows, heads, nope, vdim)
	}
	return nil
}
