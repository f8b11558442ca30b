package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// noise is a f32 weight of normal values.
func noise(seed uint64, rows, cols int) (backend.View, []float32) {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := backend.View{Name: fmt.Sprintf("w%dx%d", rows, cols), Rows: rows, Cols: cols, DType: backend.F32}
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
		v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(values[i]))
	}
	return v, values
}

// aligned returns n bytes where a blob may stand.
func aligned(n int) []byte {
	b := make([]byte, n+BlobAlign)
	at := int(-uintptr(unsafe.Pointer(&b[0])) % BlobAlign)
	return b[at : at+n : at+n]
}

func pack(t *testing.T, b *Backend, p *Packing, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	blob := aligned(p.Size())
	for i := range blob {
		blob[i] = 0xa5
	}
	if err := b.Pack(t.Context(), blob, p); err != nil {
		t.Fatal(err)
	}
	return blob
}

// steps bounds the rounding of an element in units of its group's largest
// magnitude: half a step, and what rounding the scale to a half adds.
func steps(f Format) float64 {
	if f == Int8 {
		return 0.5/127 + 0x1p-11
	}
	return 1.0 / 4 // the largest may be cut off
}

// A packed weight is the stored one, rounded within its group and in no other
// place, whatever its shape and however many workers packed it.
func TestPack(t *testing.T) {
	for _, f := range []Format{Int8, Int4} {
		for _, shape := range [][2]int{{1, 1}, {7, 31}, {8, 32}, {9, 33}, {64, 96}, {33, 260}} {
			rows, cols := shape[0], shape[1]
			v, want := noise(1, rows, cols)
			for _, threads := range []int{1, 3} {
				b := Open(threads)
				defer b.Close()
				p, err := NewPacking(v, f)
				blob := pack(t, b, p, err)
				if len(blob) != PackedSize(rows, cols, f) {
					t.Fatalf("%s: %d bytes, want %d", v.Name, len(blob), PackedSize(rows, cols, f))
				}
				for _, k := range b.pool.workers { // the bound that Pack states
					if have := 4 * cap(k.weights); have > 32*cols {
						t.Errorf("%s: a worker took %d bytes, want at most %d", v.Name, have, 32*cols)
					}
				}
				h, err := b.LoadPacked(v.Name, rows, cols, f, blob)
				if err != nil {
					t.Fatal(err)
				}
				for r := range rows {
					mustRound(t, fmt.Sprintf("%s %s row %d", v.Name, f, r), b.weight(h).row(r, make([]float32, cols)), want[r*cols:][:cols], f)
				}
			}
		}
	}
}

func mustRound(t *testing.T, what string, have, want []float32, f Format) {
	t.Helper()
	for k := range want {
		first, last := k/32*32, min(k/32*32+32, len(want))
		largest, squares := 0.0, 0.0
		for i, w := range want[first:last] {
			largest = max(largest, math.Abs(float64(w)))
			squares += math.Pow(float64(have[first+i]-w), 2)
		}
		// No worse than steps of an 8th, at one end cut off by one.
		if bound := 0.14 * largest * largest; f == Int4 && !(squares <= bound) {
			t.Fatalf("%s, elements from %d on: squared error %g, want %g", what, first, squares, bound)
		}
		if d := math.Abs(float64(have[k] - want[k])); !(d <= steps(f)*largest) {
			t.Fatalf("%s, element %d: %g, want %g within %g", what, k, have[k], want[k], steps(f)*largest)
		}
	}
}

// A group with an element that no scale reaches makes its row NaN, and no other.
func TestPackNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, f := range []Format{Int8, Int4} {
		for _, bad := range []float32{float32(math.NaN()), inf, -inf, 1e30, -3e38} {
			v, _ := noise(3, 9, 70)
			binary.LittleEndian.PutUint32(v.Data[4*(3*70+40):], math.Float32bits(bad))
			b := Open(1)
			defer b.Close()
			p, err := NewPacking(v, f)
			blob := pack(t, b, p, err)
			h, err := b.LoadPacked(v.Name, v.Rows, v.Cols, f, blob)
			if err != nil {
				t.Fatal(err)
			}
			for r := range v.Rows {
				for k, x := range b.weight(h).row(r, make([]float32, v.Cols)) {
					if want := r == 3 && k/32 == 1; (x != x) != want {
						t.Errorf("%s with %g at [3 40]: element [%d %d] is %g", f, bad, r, k, x)
					}
				}
			}
		}
	}
}

// The blob of kv_b holds W_uk transposed and W_uv by head, from every storage.
func TestPackKVB(t *testing.T) {
	for _, d := range []struct{ heads, nope, vdim, latent int }{{3, 5, 9, 33}, {2, 40, 24, 64}, {1, 1, 1, 1}} {
		v, want := noise(2, d.heads*(d.nope+d.vdim), d.latent)
		b := Open(2)
		defer b.Close()
		p, err := NewKVBPacking(v, d.heads, d.nope, d.vdim)
		blob := pack(t, b, p, err)
		h, err := b.LoadPackedKVB(v.Name, d.heads, d.nope, d.vdim, d.latent, blob)
		if err != nil {
			t.Fatal(err)
		}
		kvb := b.weight(h).heads
		for head := range d.heads {
			first := head * (d.nope + d.vdim)
			for l := range d.latent {
				column := make([]float32, d.nope)
				for n := range column {
					column[n] = want[(first+n)*d.latent+l]
				}
				mustRound(t, fmt.Sprintf("head %d column %d", head, l), kvb.ukT.row(kvb.uk(head)+l, make([]float32, d.nope)), column, Int8)
			}
			for j := range d.vdim {
				mustRound(t, fmt.Sprintf("head %d value %d", head, j), kvb.uv.row(kvb.v(head)+j, make([]float32, d.latent)),
					want[(first+d.nope+j)*d.latent:][:d.latent], Int8)
			}
		}
	}
}

// What is no blob of the weight is refused with the numbers.
func TestLoadPackedRefuses(t *testing.T) {
	b := Open(1)
	defer b.Close()
	size := PackedSize(9, 33, Int4)
	for _, c := range []struct {
		field      string
		rows, cols int
		f          Format
		blob       []byte
	}{
		{"format", 9, 33, AsStored, aligned(size)},
		{"format", 9, 33, Int4 + 1, aligned(size)},
		{"shape", 0, 33, Int4, nil},
		{"shape", 9, -1, Int4, nil},
		{"bytes", 9, 33, Int4, aligned(size - 1)},
		{"bytes", 9, 33, Int4, nil},
		{"bytes", 9, 33, Int8, aligned(size)},
		{"address", 9, 33, Int4, aligned(size + 1)[1:]},
	} {
		_, err := b.LoadPacked("the.name", c.rows, c.cols, c.f, c.blob)
		if e, ok := errors.AsType[*BlobError](err); !ok || e.Field != c.field || e.Name != "the.name" || e.Want == e.Have {
			t.Errorf("%+v: %v", c, err)
		}
	}
	size = PackedKVBSize(2, 5, 9, 33)
	for _, c := range []struct {
		field string
		heads int
		blob  []byte
	}{{"shape", 0, nil}, {"bytes", 2, aligned(size + 1)}, {"bytes", 3, aligned(size)}, {"address", 2, aligned(size + 1)[1:]}} {
		_, err := b.LoadPackedKVB("the.name", c.heads, 5, 9, 33, c.blob)
		if e, ok := errors.AsType[*BlobError](err); !ok || e.Field != c.field {
			t.Errorf("%+v: %v", c, err)
		}
	}
	v, _ := noise(1, 9, 33)
	if _, err := NewPacking(v, AsStored); err == nil {
		t.Error("packs as stored")
	}
	if _, err := NewKVBPacking(v, 2, 2, 2); err == nil {
		t.Error("packs 9 rows as 2 heads of 2 + 2")
	}
	p, err := NewPacking(v, Int4)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Pack(t.Context(), make([]byte, p.Size()+1), p); err == nil {
		t.Error("packs into a longer blob")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Pack(over, aligned(p.Size()), p); !errors.Is(err, context.Canceled) {
		t.Errorf("packs after the context's end: %v", err)
	}
}

// A product is exact within groups and adds them in order, with the same bits
// whatever lines it is computed with.
func TestPackedProducts(t *testing.T) {
	const rows, cols, lines = 45, 333, 300
	for _, f := range []Format{Int8, Int4} {
		b := Open(3)
		defer b.Close()
		v, _ := noise(4, rows, cols)
		p, err := NewPacking(v, f)
		h, err := b.LoadPacked(v.Name, rows, cols, f, pack(t, b, p, err))
		if err != nil {
			t.Fatal(err)
		}
		w := b.weight(h)
		_, x := noise(5, lines, cols)
		x[7*cols+50] = float32(math.NaN())
		have := products(w, x, lines)
		for line := range lines {
			in := x[line*cols:][:cols]
			alone := products(w, in, 1)
			for r := range rows {
				y := have[line*rows+r]
				if line == 7 {
					if y == y {
						t.Fatalf("%s: line 7, row %d: a NaN ended as %g", f, r, y)
					}
					continue
				}
				if math.Float32bits(y) != math.Float32bits(alone[r]) {
					t.Fatalf("%s: line %d, row %d: %g among others, %g alone", f, line, r, y, alone[r])
				}
				want, size := roundedProduct(w.row(r, make([]float32, cols)), in)
				if d := math.Abs(float64(y) - want); !(d <= 20*0x1p-24*size) {
					t.Fatalf("%s: line %d, row %d: %g, want %g", f, line, r, y, want)
				}
			}
		}
	}
}

// products multiplies lines with all rows of a weight, in tiles of 16 rows.
func products(w *weight, x []float32, n int) []float32 {
	k := &worker{}
	l := lines{mat: mat{x, w.Cols}, rows: k.firstLines(n)}
	l.codes = &kernel.Quantized{}
	l.codes.Resize(n, w.Cols)
	for i := range n {
		l.codes.Set(i, x[i*w.Cols:][:w.Cols])
	}
	out := make([]float32, n*w.Rows)
	for n0 := 0; n0 < w.Rows; n0 += 16 {
		y := k.products(&k.y, w, n0, min(n0+16, w.Rows), l)
		for i := range n {
			copy(out[i*w.Rows+n0:], y.line(i))
		}
	}
	return out
}

// roundedProduct is w x with x rounded in groups of 32, and the sum of its terms'
// magnitudes.
func roundedProduct(w, x []float32) (sum, size float64) {
	for first := 0; first < len(x); first += 32 {
		part := x[first:min(first+32, len(x))]
		var largest float32
		for _, v := range part {
			largest = max(largest, v, -v)
		}
		for i, v := range part {
			code := math.RoundToEven(float64(v * (127 / largest)))
			term := float64(w[first+i]) * code * float64(largest/127)
			sum, size = sum+term, size+math.Abs(term)
		}
	}
	return sum, size
}

// BenchmarkPack converts one expert's matrix from bfloat16.
func BenchmarkPack(b *testing.B) {
	const rows, cols = 512, 2048
	v, _ := noise(6, rows, cols)
	v.DType = backend.BF16
	for i := range rows * cols {
		v.Data[2*i], v.Data[2*i+1] = v.Data[4*i+2], v.Data[4*i+3]
	}
	v.Data = v.Data[:2*rows*cols]
	for _, f := range []Format{Int8, Int4} {
		b.Run(f.String(), func(b *testing.B) {
			be := Open(1)
			defer be.Close()
			p, err := NewPacking(v, f)
			if err != nil {
				b.Fatal(err)
			}
			blob := aligned(p.Size())
			b.SetBytes(int64(len(v.Data)))
			for b.Loop() {
				if err := be.Pack(b.Context(), blob, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
