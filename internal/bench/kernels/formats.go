package main

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

// format is how weights are stored: as they are, or packed.
type format struct {
	name   string
	dtype  backend.DType
	packed cpu.Format
}

var formats = []format{
	{name: "F32", dtype: backend.F32},
	{name: "BF16", dtype: backend.BF16},
	{name: "FP8", dtype: backend.F8E4M3},
	{name: "int4", packed: cpu.Int4},
	{name: "int8", packed: cpu.Int8},
}

// Formats by their place.
const (
	bf16  = 1
	int8s = 4
)

// size returns the bytes of a weight [n, k].
func (f format) size(n, k int) int {
	if f.packed != cpu.AsStored {
		return cpu.PackedSize(n, k, f.packed)
	}
	return n * k * f.dtype.Size()
}

// fill writes random values of a format, a tile of them again and again. Packed ones
// repeat after as many rows of 2048 as make a tile; any shape of multiples of 32
// cuts valid groups out of them.
func (p *products) fill(f format) error {
	if p.filled == f {
		return nil
	}
	data := p.mem.Bytes()
	r := rand.New(rand.NewPCG(1, 2))
	tile := 1 << 20
	if f.packed == cpu.AsStored {
		fillStored(r, f.dtype, data[:tile])
	} else {
		const n, k = 256, 2048
		stored := make([]byte, 4*n*k)
		fillStored(r, backend.F32, stored)
		packing, err := cpu.NewPacking(backend.View{Name: f.name, Rows: n, Cols: k, DType: backend.F32, Data: stored}, f.packed)
		if err != nil {
			return err
		}
		tile = packing.Size()
		if err := p.b.Pack(context.Background(), data[:tile], packing); err != nil {
			return err
		}
	}
	for at := tile; at < len(data); at += tile {
		copy(data[at:], data[:tile])
	}
	p.filled = f
	return nil
}

func fillStored(r *rand.Rand, t backend.DType, data []byte) {
	for i := 0; i < len(data); i += t.Size() {
		bits := math.Float32bits(float32(r.NormFloat64() / 50))
		switch t {
		case backend.F32:
			binary.LittleEndian.PutUint32(data[i:], bits)
		case backend.BF16:
			binary.LittleEndian.PutUint16(data[i:], uint16(bits>>16))
		default: // FP8, any code but NaN
			for data[i] = byte(r.Uint32()); data[i]&0x7f == 0x7f; data[i] = byte(r.Uint32()) {
			}
		}
	}
}

// load returns the weight [n, k] that lies at an offset of the filled memory.
func (p *products) load(name string, f format, n, k, at int) (backend.Weight, error) {
	data := p.mem.Bytes()[at:][:f.size(n, k)]
	if f.packed != cpu.AsStored {
		return p.b.LoadPacked(name, n, k, f.packed, data)
	}
	v := backend.View{Name: name, Rows: n, Cols: k, DType: f.dtype, Data: data}
	if f.dtype == backend.F8E4M3 {
		v.Scales = unitScales(n, k)
	}
	return p.b.LoadWeight(v)
}

// unitScales are block scales that keep random FP8 codes near one.
func unitScales(n, k int) backend.Scales {
	values := make([]float32, n/backend.ScaleBlock*(k/backend.ScaleBlock))
	for i := range values {
		values[i] = 1e-4
	}
	return backend.ScalesOf(n/backend.ScaleBlock, k/backend.ScaleBlock, values...)
}
