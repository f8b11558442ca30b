package backendtest

import (
	"fmt"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// sizes are lengths around every tile and block.
var sizes = []int{1, 3, 5, 7, 8, 17, 31, 33, 65, 129, 257, 576}

func embedScene(vocab, hidden int, st storage) scene {
	return scene{
		store: st, vocab: vocab,
		build: func(r *rig) backend.Program {
			return backend.Program{&backend.Embed{Table: r.load("embed", vocab, hidden), Dst: r.out("h", hidden)}}
		},
	}
}

func (s suite) embed(t *testing.T) {
	s.laws(t, embedScene(131, 129, asBF16), 0) // nothing is computed: exact
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) { s.formula(t, embedScene(131, 129, st), 0, ragged, single) })
	}
}

const linearUnits = 40

// linearScene computes dst = W x + bias, or adds it to what dst holds.
func linearScene(out, in int, bias, add bool, st storage) scene {
	return scene{store: st, build: func(r *rig) backend.Program {
		op := &backend.Linear{X: r.in("x", in, rows("x", in, 1)), W: r.load("w", out, in), Add: add}
		if bias {
			op.Bias = r.offset("bias", out)
		}
		if add {
			op.Dst = r.inout("y", out, rows("y", out, 1))
		} else {
			op.Dst = r.out("y", out)
		}
		return backend.Program{op}
	}}
}

func (s suite) linear(t *testing.T) {
	s.laws(t, linearScene(33, 65, true, true, asF32), linearUnits)
	for _, st := range storages {
		t.Run("Storage/"+st.name, func(t *testing.T) { s.laws(t, linearScene(131, 259, false, false, st), linearUnits) })
		t.Run("Sizes/"+st.name, func(t *testing.T) {
			for i, n := range sizes {
				s.formula(t, linearScene(n, sizes[len(sizes)-1-i], false, false, st), linearUnits, ragged, single)
				s.formula(t, linearScene(n, n, false, false, st), linearUnits, ragged)
			}
		})
	}
	t.Run("Bias", func(t *testing.T) { s.formula(t, linearScene(5, 7, true, false, asBF16), linearUnits, ragged) })
	t.Run("Add", func(t *testing.T) { s.formula(t, linearScene(5, 7, false, true, asBF16), linearUnits, ragged) })
	t.Run("RowOrder", s.linearRowOrder)
}

// linearRowOrder: y[i] is row i of the matrix, [out, in], on every row.
func (s suite) linearRowOrder(t *testing.T) {
	sc := scene{build: func(r *rig) backend.Program {
		return backend.Program{&backend.Linear{
			X: r.in("x", 3, constant(1, 10, 100)), W: r.loadView(exact("w", 2, 3, 1, 2, 3, 4, 5, 6)), Dst: r.out("y", 2),
		}}
	}}
	o := s.rig(t, sc).play(ragged, variation{})
	for _, k := range ragged.keys() {
		mustBe(t, k, "y", o.rows["y"][k], []float64{321, 654})
	}
}

// weights: the codes of each type decode to their values, and views whose sizes
// do not agree are refused.
func (s suite) weights(t *testing.T) {
	decoded := func(t *testing.T, v backend.View) []float32 {
		sc := scene{vocab: v.Rows, build: func(r *rig) backend.Program {
			return backend.Program{&backend.Embed{Table: r.loadView(v), Dst: r.out("h", v.Cols)}}
		}}
		r := s.rig(t, sc)
		var all []float32
		for row := range v.Rows {
			o := r.play(single, variation{tamper: func(st *backend.Step) { st.IDs[0] = int32(row) }})
			all = append(all, o.rows["h"][key{}]...)
		}
		return all
	}
	expect := func(t *testing.T, have []float32, want ...float32) {
		t.Helper()
		if len(have) != len(want) {
			t.Fatalf("%d values, want %d", len(have), len(want))
		}
		for i := range want {
			if have[i] != want[i] {
				t.Errorf("value %d = %v, want %v", i, have[i], want[i])
			}
		}
	}
	t.Run("E4M3", func(t *testing.T) {
		var codes []byte
		for c := range 256 {
			codes = append(codes, byte(c))
		}
		have := decoded(t, backend.View{Name: "codes", Rows: 2, Cols: 128, DType: backend.F8E4M3, Data: codes})
		for c, v := range have {
			exp, mant := c>>3&15, float32(c&7)
			want := mant / 512 // subnormal
			if exp > 0 {
				want = (8 + mant) / 8
				for range exp {
					want *= 2
				}
				want /= 128
			}
			if c >= 128 {
				want = -want
			}
			if c&0x7f == 0x7f {
				if v == v {
					t.Errorf("e4m3 %#02x = %v, want NaN", c, v)
				}
			} else if v != want {
				t.Errorf("e4m3 %#02x = %v, want %v", c, v, want)
			}
		}
	})
	t.Run("F16", func(t *testing.T) {
		v := backend.View{Name: "f16", Rows: 1, Cols: 6, DType: backend.F16, Data: []byte{0x00, 0x3c, 0x01, 0x00, 0xff, 0x03, 0x00, 0x04, 0xff, 0xfb, 0x55, 0x35}}
		expect(t, decoded(t, v), 1, 0x1p-24, 1023*0x1p-24, 0x1p-14, -65504, 0.333251953125)
	})
	t.Run("BF16", func(t *testing.T) {
		v := backend.View{Name: "bf16", Rows: 1, Cols: 3, DType: backend.BF16, Data: []byte{0x80, 0x3f, 0x01, 0xc0, 0x80, 0x00}}
		expect(t, decoded(t, v), 1, -2.015625, 0x1p-126)
	})
	t.Run("ScaleBlocks", func(t *testing.T) {
		codes := make([]byte, 130*129)
		for i := range codes {
			codes[i] = 0x38 // 1
		}
		have := decoded(t, backend.View{Name: "blocks", Rows: 130, Cols: 129, DType: backend.F8E4M3, Data: codes, Scales: backend.ScalesOf(2, 2, 2, 3, 5, 7)})
		for i, v := range have {
			want := []float32{2, 3, 5, 7}[i/129/128*2+i%129/128]
			if v != want {
				t.Fatalf("element [%d %d] = %v, want %v", i/129, i%129, v, want)
			}
		}
	})
	t.Run("ScaleRows", func(t *testing.T) {
		v := backend.View{Name: "rows", Rows: 3, Cols: 1, DType: backend.F8E4M3, Data: []byte{0x38, 0x40, 0xb8}, Scales: backend.ScalesOf(3, 1, 10, 100, 1000)}
		expect(t, decoded(t, v), 10, 200, -1000)
		v.Scales = backend.Scales{Rows: 3, Cols: 1, DType: backend.BF16, Data: []byte{0x20, 0x41, 0xc8, 0x42, 0x00, 0x40}} // 10, 100, 2
		expect(t, decoded(t, v), 10, 200, -2)
	})
	t.Run("Refused", func(t *testing.T) {
		b := s.open(t)
		defer b.Close()
		good := exact("good", 2, 3, 1, 2, 3, 4, 5, 6)
		for i, change := range []func(*backend.View){
			func(v *backend.View) { v.Rows = 0 },
			func(v *backend.View) { v.Cols = -3 },
			func(v *backend.View) { v.DType = 99 },
			func(v *backend.View) { v.Data = v.Data[1:] },
			func(v *backend.View) { v.Rows = 3 },
			func(v *backend.View) { v.Scales = backend.ScalesOf(0, 0, 1) },
			func(v *backend.View) { v.Scales = backend.ScalesOf(3, 1, 1, 1, 1) },
			func(v *backend.View) {
				v.Scales = backend.Scales{Rows: 2, Cols: 1, DType: backend.F16, Data: make([]byte, 4)}
			},
		} {
			bad := good
			change(&bad)
			if _, err := b.LoadWeight(bad); err == nil {
				t.Errorf("view %d was loaded: %+v", i, bad)
			}
			if _, err := b.LoadKVB(bad, 1, 1, 1); err == nil {
				t.Errorf("view %d was loaded as kv_b: %+v", i, bad)
			}
		}
		if _, err := b.LoadKVB(good, 1, 1, 2); err == nil {
			t.Error("kv_b of 2 rows was loaded as one head of 1 + 2")
		}
	})
	for _, st := range storages {
		t.Run(fmt.Sprint("RaggedBlocks/", st.name), func(t *testing.T) {
			s.formula(t, linearScene(576, 130, false, false, st), linearUnits, single)
		})
	}
}
