package main

import (
	"context"
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

// The attention of one layer of GLM-4.7-Flash.
const (
	mlaHeads, mlaNope, mlaRope, mlaV, mlaLatent = 20, 192, 64, 256, 512
	mlaWidth                                    = mlaLatent + mlaRope
	mlaPage                                     = 64
	mlaLayers                                   = 8 // whose kv_b take turns: more than caches hold
)

// attention is absorbed MLA of one row over so many keys. Layers of pages and of
// kv_b take turns, so that all comes from memory.
func (p *products) attention(name string, f format, keys int) (w work, err error) {
	pages, err := p.latentPages()
	if err != nil {
		return w, err
	}
	q, err := p.random(1, mlaHeads*(mlaNope+mlaRope))
	if err != nil {
		return w, err
	}
	dst, err := p.b.NewBuffer(1, mlaHeads*mlaV)
	if err != nil {
		return w, err
	}
	programs, kvbBytes, err := p.kvb(f, backend.MLAAttend{
		Q: q, Dst: dst, Heads: mlaHeads, Nope: mlaNope, Rope: mlaRope, V: mlaV, Latent: mlaLatent, Scale: 0.0625,
	})
	if err != nil {
		return w, err
	}
	used := (keys + mlaPage - 1) / mlaPage
	var steps []*backend.Step
	for i := range max(1, pageCount/used) {
		s := &backend.Step{
			IDs: []int32{0}, Seq: []int32{0}, Pos: []int32{int32(keys - 1)}, QStart: []int32{0, 1}, KVLen: []int32{int32(keys)},
			Session: []uint64{1}, Tag: []uint64{0}, Stride: used,
		}
		for j := range used {
			s.Pages, s.PageTag = append(s.Pages, int32(i*used+j)), append(s.PageTag, 0)
		}
		steps = append(steps, s)
	}
	return work{
		name: name, memory: keys <= 64, operands: len(programs) * len(steps), chain: 1,
		bytes: float64(keys*mlaWidth*4 + kvbBytes),
		flops: 2 * float64(mlaHeads) * (float64(keys)*(mlaWidth+mlaLatent) + mlaNope*mlaLatent + mlaV*mlaLatent),
		run: func(i int) error {
			return p.execute(programs[i%len(programs)], steps[i%len(steps)], pages)
		},
	}, nil
}

// pageCount pages of latent rows are more than any cache holds.
const pageCount = poolBytes / (mlaPage * mlaWidth * 4)

// latentPages returns pages of random rows, the same ones each time.
func (p *products) latentPages() (backend.Pages, error) {
	if p.latent != nil {
		return p.latent, nil
	}
	pages, err := p.b.NewPages(backend.PageSpec{Pages: pageCount, PageSize: mlaPage, Format: backend.KVF32, Planes: []int{mlaWidth}})
	if err != nil {
		return nil, err
	}
	p.latent = pages
	page := make([]byte, mlaPage*mlaWidth*4)
	fillStored(rand.New(rand.NewPCG(5, 6)), backend.F32, page)
	for i := range pageCount {
		if err := pages.Import(i, page); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// kvb returns the operation with each of some layers' kv_b, and the bytes of one.
func (p *products) kvb(f format, op backend.MLAAttend) (programs []backend.Program, bytes int, err error) {
	const rows = mlaHeads * (mlaNope + mlaV)
	if err := p.fill(formats[bf16]); err != nil {
		return nil, 0, err
	}
	v := backend.View{Name: "kv_b", Rows: rows, Cols: mlaLatent, DType: backend.BF16}
	for layer := range mlaLayers {
		v.Data = p.mem.Bytes()[layer*2*rows*mlaLatent:][:2*rows*mlaLatent]
		if f.packed == cpu.AsStored {
			bytes = 2 * rows * mlaLatent
			op.KVB, err = p.b.LoadKVB(v, mlaHeads, mlaNope, mlaV)
		} else {
			bytes = cpu.PackedKVBSize(mlaHeads, mlaNope, mlaV, mlaLatent)
			op.KVB, err = p.packedKVB(v, layer, bytes)
		}
		if err != nil {
			return nil, 0, err
		}
		layerOp := op
		programs = append(programs, backend.Program{&layerOp})
	}
	return programs, bytes, nil
}

// packedKVB packs kv_b behind the weights that are filled in.
func (p *products) packedKVB(v backend.View, layer, size int) (backend.Weight, error) {
	packing, err := cpu.NewKVBPacking(v, mlaHeads, mlaNope, mlaV)
	if err != nil {
		return 0, err
	}
	size = (size + cpu.BlobAlign - 1) / cpu.BlobAlign * cpu.BlobAlign
	blob := p.mem.Bytes()[poolBytes-(layer+1)*size:][:packing.Size()]
	p.filled = format{} // no longer
	if err := p.b.Pack(context.Background(), blob, packing); err != nil {
		return 0, err
	}
	return p.b.LoadPackedKVB(v.Name, mlaHeads, mlaNope, mlaV, mlaLatent, blob)
}
