//go:build unix

package cpu_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// A weight file that is truncated under its mapping fails the load or the step
// that reads it, and says so.
func TestTruncatedFile(t *testing.T) {
	const n = 256
	path := filepath.Join(t.TempDir(), "weights")
	mapped := func() (*offheap.Region, func()) {
		if err := os.WriteFile(path, make([]byte, 4*n*n), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := offheap.MapFile(f, 4*n*n)
		if err != nil {
			t.Fatal(err)
		}
		return r, func() {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	step := &backend.Step{
		IDs: []int32{0}, Seq: []int32{0}, Pos: []int32{0}, QStart: []int32{0, 1}, KVLen: []int32{1},
		Session: []uint64{1}, Tag: []uint64{0}, Pages: []int32{0}, PageTag: []uint64{0}, Stride: 1,
	}
	lost := func(t *testing.T, err error, op string) {
		t.Helper()
		var fault *backend.FaultError
		if !errors.As(err, &fault) || !fault.Lost || fault.Op != op {
			t.Errorf("error %v, want lost memory in %s", err, op)
		}
	}
	for _, threads := range []int{1, 3} {
		b := cpu.Open(threads)
		pages, err := b.NewPages(backend.PageSpec{Pages: 1, PageSize: 4, Format: backend.KVF32, Planes: []int{1}})
		if err != nil {
			t.Fatal(err)
		}
		x, err := b.NewBuffer(1, n)
		if err != nil {
			t.Fatal(err)
		}
		run := func(op backend.Op) error {
			if err := b.Start(backend.Program{op}, step, pages); err != nil {
				t.Fatal(err)
			}
			_, err := b.Wait()
			return err
		}

		// A matrix, read by the workers, and a norm, read before they start.
		r, truncate := mapped()
		w, err := b.LoadWeight(backend.View{Name: "w", Rows: n, Cols: n, DType: backend.F32, Data: r.Bytes()})
		if err != nil {
			t.Fatal(err)
		}
		norm, err := b.LoadWeight(backend.View{Name: "norm", Rows: 1, Cols: n, DType: backend.BF16, Data: r.Bytes()[:2*n]})
		if err != nil {
			t.Fatal(err)
		}
		truncate()
		lost(t, run(&backend.Linear{X: x, W: w, Dst: x}), "Linear")
		lost(t, run(&backend.FinalNorm{H: x, Norm: norm, Dst: x}), "FinalNorm")

		// kv_b is read when it is loaded.
		r2, truncate := mapped()
		truncate()
		_, err = b.LoadKVB(backend.View{Name: "kv_b", Rows: n, Cols: n, DType: backend.F32, Data: r2.Bytes()}, n/4, 2, 2)
		lost(t, err, "load kv_b")

		// A weight is read when it is packed.
		p, err := cpu.NewPacking(backend.View{Name: "packed", Rows: n, Cols: n, DType: backend.F32, Data: r2.Bytes()}, cpu.Int4)
		if err != nil {
			t.Fatal(err)
		}
		lost(t, b.Pack(t.Context(), make([]byte, p.Size()), p), "load packed")

		for _, c := range []func() error{pages.Close, b.Close, r.Close, r2.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	}
}
