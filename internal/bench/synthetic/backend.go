package synthetic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

// A Format says how the weights of a model are held.
type Format string

// The formats. In BF16 and F32 models every matrix is of that type; the others
// leave some of them in BF16: FP8 as published models do, Int8 and Int4 as
// [cpu.FormatOf] says.
const (
	F32  Format = "f32"
	BF16 Format = "bf16"
	FP8  Format = "fp8" // blocks of 128x128 with a scale
	Int8 Format = "int8"
	Int4 Format = "int4"
)

// Backend is the CPU backend over generated weights: the View that a weight is loaded
// from gives its name and shape, and its bytes are never read.
type Backend struct {
	*cpu.Backend

	// Period, if it is not 0, has the rows of Int8 and Int4 matrices repeat after that
	// many, so that a model of 30 billion weights is made in seconds. It is a multiple
	// of 8.
	Period int

	format  Format
	memory  arena
	weights map[backend.Weight]Weight
	stored  []byte // a slab of rows on its way to a blob
}

// Weight is what a step reads of a loaded weight.
type Weight struct {
	Rows, Cols int
	Bytes      int // in memory, scales included
}

// NewBackend returns a backend of the given number of threads, 0 for all.
func NewBackend(threads int, f Format) (*Backend, error) {
	switch f {
	case F32, BF16, FP8, Int8, Int4:
	default:
		return nil, fmt.Errorf("synthetic: weights %q: want one of %s", f, []Format{F32, BF16, FP8, Int8, Int4})
	}
	return &Backend{Backend: cpu.Open(threads), format: f, weights: map[backend.Weight]Weight{}}, nil
}

// Weight describes a loaded weight.
func (b *Backend) Weight(w backend.Weight) Weight { return b.weights[w] }

// Memory returns the bytes that weights take.
func (b *Backend) Memory() int { return b.memory.used }

// LoadWeight implements backend.Backend.
func (b *Backend) LoadWeight(v backend.View) (backend.Weight, error) {
	if f := b.packed(v.Name); f != cpu.AsStored {
		return b.loadPacked(v, f)
	}
	if err := b.generate(&v); err != nil {
		return 0, err
	}
	w, err := b.Backend.LoadWeight(v)
	b.weights[w] = Weight{v.Rows, v.Cols, len(v.Data) + len(v.Scales.Data)}
	return w, err
}

// LoadKVB implements backend.Backend. As stored, the transposed half is kept in f32
// unless kv_b is BF16.
func (b *Backend) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if b.packed(v.Name) != cpu.AsStored {
		return b.loadPackedKVB(v, heads, nope, vdim)
	}
	if err := b.generate(&v); err != nil {
		return 0, err
	}
	w, err := b.Backend.LoadKVB(v, heads, nope, vdim)
	transposed := 4
	if v.DType == backend.BF16 {
		transposed = 2
	}
	b.weights[w] = Weight{v.Rows, v.Cols, heads * v.Cols * (transposed*nope + vdim*v.DType.Size())}
	return w, err
}

// Close frees the weights too.
func (b *Backend) Close() error { return errors.Join(b.Backend.Close(), b.memory.close()) }

// generate replaces the type and bytes of a view.
func (b *Backend) generate(v *backend.View) (err error) {
	if v.Rows > 1 {
		switch {
		case b.format == F32:
			v.DType = backend.F32
		case b.format == FP8 && quantised(v.Name):
			v.DType = backend.F8E4M3
		}
	}
	if v.Data, err = b.memory.alloc(v.Rows * v.Cols * v.DType.Size()); err != nil {
		return fmt.Errorf("synthetic: %s: %w", v.Name, err)
	}
	switch {
	case v.Rows == 1:
		store(v.Data, v.DType, Vector(v.Name, v.Cols))
	case v.DType == backend.F8E4M3:
		v.Scales = fillFP8(v.Data, MatrixOf(v.Name, v.Rows, v.Cols))
	default:
		FillMatrix(v.Data, v.DType, MatrixOf(v.Name, v.Rows, v.Cols))
	}
	return nil
}

// quantised reports whether published FP8 models hold a matrix in FP8.
func quantised(name string) bool {
	for _, kept := range []string{"embed_tokens", "lm_head", "mlp.gate", "indexer.weights_proj"} {
		if strings.HasSuffix(name, kept+".weight") {
			return false
		}
	}
	return true
}

func store(dst []byte, t backend.DType, values []float32) {
	for i, v := range values {
		if t == backend.F32 {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		} else {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(math.Float32bits(v)>>16))
		}
	}
}

// FillMatrix stores a matrix as F32 or BF16, exactly.
func FillMatrix(dst []byte, t backend.DType, m Matrix) {
	size := m.Cols * t.Size()
	parallel(m.Rows, func(r0, r1 int) {
		row := make([]float32, m.Cols)
		for r := r0; r < r1; r++ {
			m.Row(row, r)
			store(dst[r*size:], t, row)
		}
	})
}

// fillFP8 writes random codes of magnitudes 0.125 to 1.875, root mean square 0.85,
// and returns scales that bring them near those of the other formats.
func fillFP8(dst []byte, m Matrix) backend.Scales {
	parallel(m.Rows, func(r0, r1 int) {
		for r := r0; r < r1; r++ {
			for g := range m.Groups() {
				out, group := dst[r*m.Cols+g*GroupLen:][:GroupLen], m.Group(r, g)
				for j, b := range group.Nibbles {
					out[j], out[16+j] = b&0x9f|0x20, b<<4&0x80|b>>3&0x1f|0x20
				}
			}
		}
	})
	rows, cols := (m.Rows+backend.ScaleBlock-1)/backend.ScaleBlock, (m.Cols+backend.ScaleBlock-1)/backend.ScaleBlock
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = 0.03
	}
	return backend.ScalesOf(rows, cols, values...)
}
