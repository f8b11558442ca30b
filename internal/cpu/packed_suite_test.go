package cpu_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/backend/backendtest"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/oracle"
)

// packer packs the suite's matrices in the places that FormatOf packs, unless they
// are so narrow that the suite has worked them out by hand.
type packer struct {
	*cpu.Packer
	stored *cpu.Backend
}

func newPacker(threads int, f cpu.Format) *packer {
	b := cpu.Open(threads)
	return &packer{b.Packer(func(string) cpu.Format { return f }), b}
}

func packs(v backend.View) bool {
	if v.Name == "kv_b" {
		return v.Rows > 4
	}
	return v.Rows > 1 && v.Cols > 6 && !slices.ContainsFunc([]string{"router", "embed", "weights_proj", "codes", "blocks"},
		func(name string) bool { return strings.Contains(v.Name, name) })
}

func (b *packer) LoadWeight(v backend.View) (backend.Weight, error) {
	if !packs(v) {
		return b.stored.LoadWeight(v)
	}
	return b.Packer.LoadWeight(v)
}

func (b *packer) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if !packs(v) {
		return b.stored.LoadKVB(v, heads, nope, vdim)
	}
	return b.Packer.LoadKVB(v, heads, nope, vdim)
}

// rounding is the oracle with the weights of a packer, and inputs rounded.
type rounding struct {
	*oracle.Oracle
	by *packer
}

func (o *rounding) LoadWeight(v backend.View) (backend.Weight, error) {
	if !packs(v) {
		return o.Oracle.LoadWeight(v)
	}
	w, err := o.by.LoadWeight(v)
	if err != nil {
		return 0, err
	}
	return o.LoadRounded(o.by.Dequantised(w))
}

func (o *rounding) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if !packs(v) {
		return o.Oracle.LoadKVB(v, heads, nope, vdim)
	}
	w, err := o.by.LoadKVB(v, heads, nope, vdim)
	if err != nil {
		return 0, err
	}
	return o.LoadRoundedKVB(o.by.DequantisedKVB(w, nope, vdim), heads, nope, vdim)
}

// packedUnit allows for inputs that lie on the border of two codes and take one in
// the backend and the other in the oracle: a 127th of one of some dozens of inputs is
// less than 40 units.
const packedUnit = 1e-4

// The suite holds with packed weights, compared with the oracle on what the blobs
// stand for and on activations rounded as the backend rounds them.
func TestPackedBackend(t *testing.T) {
	for _, f := range []cpu.Format{cpu.Int8, cpu.Int4} {
		suite := func(t *testing.T, threads int) {
			backendtest.RunRounding(t, func(testing.TB) backend.Backend { return newPacker(threads, f) }, backendtest.Rounding{
				Oracle: func(t testing.TB) backend.Backend {
					by := newPacker(1, f)
					t.Cleanup(func() {
						if err := by.Close(); err != nil {
							t.Error(err)
						}
					})
					return &rounding{oracle.New(), by}
				},
				Unit: packedUnit,
			})
		}
		t.Run(f.String(), func(t *testing.T) {
			t.Run("one thread", func(t *testing.T) { suite(t, 1) })
			if f == cpu.Int4 && !testing.Short() {
				t.Run("three threads", func(t *testing.T) { suite(t, 3) })
			}
		})
	}
}
