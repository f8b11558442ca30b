package synthetic

import (
	"context"
	"fmt"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

// slabRows is how many rows are made at a time on their way to a blob.
const slabRows = 2048

// packed returns what a matrix is converted to.
func (b *Backend) packed(name string) cpu.Format {
	switch b.format {
	case Int8:
		return cpu.FormatOf(name, cpu.Int8)
	case Int4:
		return cpu.FormatOf(name, cpu.Int4)
	}
	return cpu.AsStored
}

// loadPacked makes a blob of the matrix, slab by slab: rows of a blob stand in order,
// in panels that slabs do not cut.
func (b *Backend) loadPacked(v backend.View, f cpu.Format) (backend.Weight, error) {
	blob, err := b.memory.alloc(cpu.PackedSize(v.Rows, v.Cols, f))
	if err != nil {
		return 0, fmt.Errorf("synthetic: %s: %w", v.Name, err)
	}
	slab := slabRows
	if b.Period > 0 {
		slab = b.Period
	}
	m, at := MatrixOf(v.Name, v.Rows, v.Cols), 0
	for r := 0; r < v.Rows && (r == 0 || b.Period == 0); r += slab {
		part := m.Slice(r, min(r+slab, v.Rows))
		p, err := cpu.NewPacking(b.store(v.Name, part), f)
		if err != nil {
			return 0, err
		}
		if err := b.Pack(context.Background(), blob[at:][:p.Size()], p); err != nil {
			return 0, err
		}
		at += p.Size()
	}
	for at < len(blob) { // of a matrix whose rows repeat
		at += copy(blob[at:], blob[:at])
	}
	w, err := b.LoadPacked(v.Name, v.Rows, v.Cols, f, blob)
	b.weights[w] = Weight{v.Rows, v.Cols, len(blob)}
	return w, err
}

func (b *Backend) loadPackedKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	p, err := cpu.NewKVBPacking(b.store(v.Name, MatrixOf(v.Name, v.Rows, v.Cols)), heads, nope, vdim)
	if err != nil {
		return 0, err
	}
	blob, err := b.memory.alloc(p.Size())
	if err != nil {
		return 0, fmt.Errorf("synthetic: %s: %w", v.Name, err)
	}
	if err := b.Pack(context.Background(), blob, p); err != nil {
		return 0, err
	}
	w, err := b.LoadPackedKVB(v.Name, heads, nope, vdim, v.Cols, blob)
	b.weights[w] = Weight{v.Rows, v.Cols, len(blob)}
	return w, err
}

// store returns a matrix as BF16, until the next call.
func (b *Backend) store(name string, m Matrix) backend.View {
	if n := 2 * m.Rows * m.Cols; cap(b.stored) < n {
		b.stored = make([]byte, n)
	}
	v := backend.View{Name: name, Rows: m.Rows, Cols: m.Cols, DType: backend.BF16, Data: b.stored[:2*m.Rows*m.Cols]}
	FillMatrix(v.Data, v.DType, m)
	return v
}
