package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

// One layer's attention of GLM-4.7-Flash over a chunk of a prompt.
func BenchmarkPrefillAttend(b *testing.B) {
	const heads, nope, rope, v, latent = 20, 192, 64, 256, 512
	for _, rows := range []int{256, 512} {
		for _, before := range []int{0, 512, 1536} {
			for _, expand := range []bool{false, true} {
				b.Run(fmt.Sprintf("rows=%d/before=%d/expand=%v", rows, before, expand), func(b *testing.B) {
					dev := cpu.Open(0)
					defer dev.Close()
					rng := rand.New(rand.NewPCG(1, 2))
					data := make([]byte, 2*heads*(nope+v)*latent)
					for i := 0; i < len(data); i += 2 {
						data[i], data[i+1] = byte(rng.Uint32()), 0x3c+byte(rng.Uint32()&0x80) // about 0.01
					}
					kvb, err := dev.LoadKVB(backend.View{Name: "kv_b", Rows: heads * (nope + v), Cols: latent, DType: backend.BF16, Data: data}, heads, nope, v)
					if err != nil {
						b.Fatal(err)
					}
					q, _ := dev.NewBuffer(rows, heads*(nope+rope))
					dst, _ := dev.NewBuffer(rows, heads*v)
					fill := make([]float32, rows*heads*(nope+rope))
					for i := range fill {
						fill[i] = rng.Float32() - 0.5
					}
					dev.Write(q, fill)
					const size = 64
					n := (rows + before) / size
					pages, err := dev.NewPages(backend.PageSpec{Pages: n, PageSize: size, Format: backend.KVF32, Planes: []int{latent + rope}})
					if err != nil {
						b.Fatal(err)
					}
					defer pages.Close()
					s := &backend.Step{QStart: []int32{0, int32(rows)}, KVLen: []int32{int32(rows + before)}, Session: []uint64{1}, Tag: []uint64{0}, Stride: n}
					for i := range n {
						s.Pages, s.PageTag = append(s.Pages, int32(i)), append(s.PageTag, 0)
					}
					for i := range rows {
						s.IDs, s.Seq, s.Pos = append(s.IDs, 0), append(s.Seq, 0), append(s.Pos, int32(before+i))
					}
					program := backend.Program{&backend.MLAAttend{
						Q: q, KVB: kvb, Heads: heads, Nope: nope, Rope: rope, V: v, Latent: latent, Scale: 0.06, Expand: expand, Dst: dst,
					}}
					for b.Loop() {
						if err := dev.Start(program, s, pages); err != nil {
							b.Fatal(err)
						}
						if _, err := dev.Wait(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
