package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

// A few rows have their keys attended over in blocks side by side, as many as are kept
// at once, and more rows in one block after another: the bits of a row are the same
// alone, in eight with contexts of up to two waves of blocks, in nine, with a list of
// all keys instead of none, beside a row without a key, and for any number of threads.
func TestRowsOfAnyStepAttendAlike(t *testing.T) {
	for _, format := range []backend.KVFormat{backend.KVF32, backend.KVBF16} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v packed=%v", format, packed), func(t *testing.T) { attendAlike(t, format, packed) })
		}
	}
}

func attendAlike(t *testing.T, format backend.KVFormat, packed bool) {
	const (
		heads, nope, rope, vdim, latent = 5, 16, 8, 12, 24
		size, perSequence               = 16, 43
	)
	type row struct{ seq, pos int32 }
	all := []row{{0, 0}, {1, 63}, {1, 64}, {2, 511}, {2, 512}, {3, 639}, {3, 640}, {3, 641}, {3, 642}}
	rng := rand.New(rand.NewPCG(8, 64))
	random := func(n int) (list []float32, data []byte) {
		for range n {
			x := float32(rng.NormFloat64())
			list, data = append(list, x), binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		return list, data
	}
	_, up := random(heads * (nope + vdim) * latent)
	queries, _ := random(len(all) * heads * (nope + rope))
	var stored [][]byte
	for range 4 * perSequence {
		list, page := random(size * (latent + rope))
		if format == backend.KVBF16 {
			page = page[:0]
			for _, x := range list {
				page = binary.LittleEndian.AppendUint16(page, uint16(math.Float32bits(x)>>16))
			}
		}
		stored = append(stored, page)
	}

	attend := func(threads int, selected bool, rows ...int) (out [][]float32) {
		dev := cpu.Open(threads)
		defer dev.Close()
		b := dev.Packer(func(string) cpu.Format {
			if packed {
				return cpu.Int8
			}
			return cpu.AsStored
		})
		defer b.Close()
		kvb, err := b.LoadKVB(backend.View{Name: "kv_b", Rows: heads * (nope + vdim), Cols: latent, DType: backend.F32, Data: up}, heads, nope, vdim)
		if err != nil {
			t.Fatal(err)
		}
		q, err := b.NewBuffer(len(all), heads*(nope+rope))
		if err != nil {
			t.Fatal(err)
		}
		dst, err := b.NewBuffer(len(all), heads*vdim)
		if err != nil {
			t.Fatal(err)
		}
		pages, err := b.NewPages(backend.PageSpec{Pages: len(stored), PageSize: size, Format: format, Planes: []int{latent + rope}})
		if err != nil {
			t.Fatal(err)
		}
		defer pages.Close()
		for i, page := range stored {
			if err := pages.Import(i, page); err != nil {
				t.Fatal(err)
			}
		}
		s := &backend.Step{QStart: []int32{0}, Stride: perSequence}
		var fill []float32
		for i, r := range rows {
			x := all[r]
			if i == 0 || x.seq != all[rows[i-1]].seq {
				for p := range int32(perSequence) {
					s.Pages, s.PageTag = append(s.Pages, x.seq*perSequence+p), append(s.PageTag, 0)
				}
				s.QStart, s.KVLen, s.Session, s.Tag = append(s.QStart, 0), append(s.KVLen, 0), append(s.Session, 0), append(s.Tag, 0)
			}
			q := len(s.KVLen) - 1
			s.IDs, s.Seq, s.Pos = append(s.IDs, 0), append(s.Seq, int32(q)), append(s.Pos, x.pos)
			s.QStart[q+1], s.KVLen[q] = int32(i+1), x.pos+1
			fill = append(fill, queries[r*heads*(nope+rope):][:heads*(nope+rope)]...)
		}
		b.Write(q, fill)
		var sel backend.Selection
		if selected {
			if sel, err = b.NewSelection(len(all), size*perSequence); err != nil {
				t.Fatal(err)
			}
			var lists [][]int32
			for _, r := range rows {
				list := []int32{}
				for p := range all[r].pos + 1 {
					if r > 0 {
						list = append(list, p)
					}
				}
				lists = append(lists, list)
			}
			b.WriteSelection(sel, lists)
		}
		if err := b.Start(backend.Program{&backend.MLAAttend{
			Q: q, Sel: sel, KVB: kvb, Heads: heads, Nope: nope, Rope: rope, V: vdim, Latent: latent, Scale: 0.2, Dst: dst,
		}}, s, pages); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		for y := b.Read(dst, len(rows)); len(out) < len(rows); y = y[heads*vdim:] {
			out = append(out, slices.Clone(y[:heads*vdim]))
		}
		return out
	}

	want := attend(1, false, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	for _, threads := range []int{1, 3} {
		for first := range 2 {
			rows := []int{0, 1, 2, 3, 4, 5, 6, 7, 8}[first:][:8]
			for _, selected := range []bool{false, true} {
				for i, y := range attend(threads, selected, rows...) {
					want := want[rows[i]]
					if selected && rows[i] == 0 {
						want = make([]float32, len(want))
					}
					if !slices.Equal(y, want) {
						t.Errorf("%d threads, rows %v, by list: %v: row %v differs", threads, rows, selected, all[rows[i]])
					}
				}
			}
		}
		for r := range all {
			if y := attend(threads, false, r)[0]; !slices.Equal(y, want[r]) {
				t.Errorf("%d threads: row %v alone differs", threads, all[r])
			}
		}
	}
}
