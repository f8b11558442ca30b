package cpu_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/backend/backendtest"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

func TestBackend(t *testing.T) {
	t.Run("one thread", func(t *testing.T) {
		backendtest.Run(t, func(testing.TB) backend.Backend {
			b := cpu.Open(1)
			b.SetScoreBudget(40) // the rows of a step take several rounds
			return b
		})
	})
	t.Run("three threads", func(t *testing.T) {
		backendtest.Run(t, func(testing.TB) backend.Backend { return cpu.Open(3) })
	})
}

// An abort word that is raised while an operation runs ends it at the next tile:
// most of its output is never written.
func TestAbortWhileRunning(t *testing.T) {
	const rows, n = 32, 4096
	b := cpu.Open(2)
	defer b.Close()
	w, err := b.LoadWeight(backend.View{Name: "w", Rows: n, Cols: n, DType: backend.BF16, Data: make([]byte, 2*n*n)})
	if err != nil {
		t.Fatal(err)
	}
	x, err := b.NewBuffer(rows, n)
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.NewBuffer(rows, n)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := b.NewPages(backend.PageSpec{Pages: 1, PageSize: rows, Format: backend.KVF32, Planes: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	poison := make([]float32, rows*n)
	for i := range poison {
		poison[i] = 7
	}
	s := &backend.Step{
		QStart: []int32{0, rows}, KVLen: []int32{rows}, Session: []uint64{1}, Tag: []uint64{0},
		Pages: []int32{0}, PageTag: []uint64{0}, Stride: 1,
	}
	for i := range int32(rows) {
		s.IDs, s.Seq, s.Pos = append(s.IDs, 0), append(s.Seq, 0), append(s.Pos, i)
	}
	program := backend.Program{&backend.Linear{X: x, W: w, Dst: y}}
	unwritten := func(abort bool) (left int) {
		b.Write(y, poison)
		s.Abort = new(atomic.Bool)
		if err := b.Start(program, s, pages); err != nil {
			t.Fatal(err)
		}
		s.Abort.Store(abort)
		r, err := b.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if r.Aborted != abort {
			t.Errorf("aborted is %v, want %v", r.Aborted, abort)
		}
		for _, v := range b.Read(y, rows) {
			if v == 7 {
				left++
			}
		}
		return left
	}
	if n := unwritten(false); n != 0 {
		t.Errorf("%d elements were not written", n)
	}
	if n := unwritten(true); n == 0 {
		t.Error("an aborted operation ran to its end")
	}
}

// A program that is wrong fails its step, not the process.
func TestPanicBecomesError(t *testing.T) {
	b := cpu.Open(1)
	defer b.Close()
	pages, err := b.NewPages(backend.PageSpec{Pages: 1, PageSize: 4, Format: backend.KVF32, Planes: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	dst, err := b.NewBuffer(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := b.LoadWeight(backend.View{Name: "w", Rows: 5, Cols: 9, DType: backend.F32, Data: make([]byte, 4*45)})
	if err != nil {
		t.Fatal(err)
	}
	s := &backend.Step{
		IDs: []int32{0}, Seq: []int32{0}, Pos: []int32{0}, QStart: []int32{0, 1}, KVLen: []int32{1},
		Session: []uint64{1}, Tag: []uint64{0}, Pages: []int32{0}, PageTag: []uint64{0}, Stride: 1,
	}
	// A program that is wrong in itself: the weight is wider than the buffer.
	if err := b.Start(backend.Program{&backend.Linear{X: dst, W: narrow, Dst: dst}}, s, pages); err != nil {
		t.Fatal(err)
	}
	_, err = b.Wait()
	var fault *backend.FaultError
	if !errors.As(err, &fault) || fault.Lost || fault.Op != "Linear" || len(fault.Stack) == 0 {
		t.Fatalf("error %v", err)
	}
}
