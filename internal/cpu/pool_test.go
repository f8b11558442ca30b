package cpu

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

type phaseFunc func(w *worker, i int)

func (f phaseFunc) task(w *worker, i int) { f(w, i) }

// Every task of every phase runs exactly once, whoever comes late.
func TestPoolRunsEachTaskOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := newPool(threads)
		for phase := range 3000 {
			tasks := phase % 23
			counts := make([]atomic.Int32, tasks)
			p.run(tasks, phaseFunc(func(_ *worker, task int) {
				counts[task].Add(1)
				if task%5 == phase%7 {
					runtime.Gosched()
				}
				if phase%500 == 499 && task == 3 {
					time.Sleep(2 * time.Millisecond) // the others fall asleep
				}
			}))
			for task := range counts {
				if n := counts[task].Load(); n != 1 {
					t.Fatalf("%d threads, phase %d: task %d ran %d times", threads, phase, task, n)
				}
			}
			if phase%1000 == 999 {
				time.Sleep(2 * time.Millisecond)
			}
		}
		p.close()
	}
}

// Workers that never get a core hold nobody up.
func TestPoolDoesNotWaitForTheLate(t *testing.T) {
	p := &pool{ended: make(chan struct{}, 1), workers: []*worker{{}, {}}}
	p.helpers = []*helper{{wake: make(chan struct{}, 1)}} // no goroutine serves it
	ran := 0
	for range 100 {
		p.run(10, phaseFunc(func(*worker, int) { ran++ }))
	}
	if ran != 1000 {
		t.Errorf("%d tasks ran, want 1000", ran)
	}
}

// More workers than the scheduler runs at a time still get through.
func TestPoolOversubscribed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(16)
	defer p.close()
	var ran atomic.Int64
	start := time.Now()
	for range 1000 {
		p.run(32, phaseFunc(func(*worker, int) { ran.Add(1) }))
	}
	if ran.Load() != 32000 {
		t.Errorf("%d tasks ran, want 32000", ran.Load())
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("1000 phases took %v", d)
	}
}

// A worker that faults ends the phase with an error that names the operation, and
// the pool goes on.
func TestPoolFault(t *testing.T) {
	for _, threads := range []int{1, 4} {
		p := newPool(threads)
		p.op = "Linear"
		p.run(100, phaseFunc(func(_ *worker, task int) {
			if task%10 == 3 {
				panic("broken")
			}
		}))
		var fault *backend.FaultError
		if err := p.fault.Load(); err == nil || !errors.As(*err, &fault) || fault.Op != "Linear" || fault.Detail != "broken" {
			t.Fatalf("%d threads: fault %v", threads, err)
		}
		p.fault.Store(nil)
		var ran atomic.Int32
		p.run(100, phaseFunc(func(*worker, int) { ran.Add(1) }))
		if ran.Load() != 100 {
			t.Errorf("%d threads: %d tasks ran after a fault, want 100", threads, ran.Load())
		}
		p.close()
	}
}

// After an abort no further task runs.
func TestPoolAbort(t *testing.T) {
	p := newPool(2)
	defer p.close()
	p.abort = new(atomic.Bool)
	var ran atomic.Int32
	p.run(1000, phaseFunc(func(*worker, int) {
		if ran.Add(1) == 10 {
			p.abort.Store(true)
		}
	}))
	if n := ran.Load(); n < 10 || n > 12 {
		t.Errorf("%d tasks ran, the abort came in the tenth", n)
	}
}

// Closing ends the helpers, asleep or awake.
func TestPoolClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 20 {
		p := newPool(4)
		p.run(8, phaseFunc(func(*worker, int) {}))
		if i%2 == 0 {
			time.Sleep(time.Millisecond)
		}
		p.close()
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
