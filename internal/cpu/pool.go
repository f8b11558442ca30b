package cpu

import (
	"sync"
	"sync/atomic"

	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// pool runs phases of work on a fixed number of workers, the caller being one.
type pool struct {
	workers []*worker
	wake    []chan struct{} // one per worker but the first
	done    sync.WaitGroup

	next  atomic.Int64
	tasks int64
	fn    func(w *worker, task int)
	op    string // the operation that runs, for errors
	abort *atomic.Bool

	fault atomic.Pointer[error]
}

// worker owns scratch that no other worker touches.
type worker struct {
	weights  []float32     // a decoded block of weights
	sums     []kernel.Sums // partial sums of its products
	lines    [kernel.MaxLines][]float32
	tails    [kernel.MaxLines][lanes]float32
	y, y2    []float32 // products
	keys     []float32 // gathered key rows
	vals     []float32 // gathered value rows
	scores   []float32 // of one block of keys, by head
	block    parts     // attention over it
	total    parts     // and over all blocks so far
	four     [groupRows]float32
	rank     []uint64 // candidates of a top-k
	counting []int32  // 0, 1, 2, ...
}

func newPool(threads int) *pool {
	p := &pool{}
	for i := range threads {
		w := &worker{}
		p.workers = append(p.workers, w)
		if i == 0 {
			continue
		}
		wake := make(chan struct{}, 1)
		p.wake = append(p.wake, wake)
		go func() {
			for range wake {
				p.drain(w)
				p.done.Done()
			}
		}()
	}
	return p
}

// run calls fn for every task in [0, tasks), each exactly once unless the step
// is aborted or a worker faulted.
func (p *pool) run(tasks int, fn func(w *worker, task int)) {
	if tasks <= 0 {
		return
	}
	p.tasks, p.fn = int64(tasks), fn
	p.next.Store(0)
	helpers := min(len(p.wake), tasks-1)
	p.done.Add(helpers)
	for _, wake := range p.wake[:helpers] {
		wake <- struct{}{}
	}
	p.drain(p.workers[0])
	p.done.Wait()
}

func (p *pool) drain(w *worker) {
	p.fail(guard(p.op, func() {
		for !p.stopped() {
			t := p.next.Add(1) - 1
			if t >= p.tasks {
				return
			}
			p.fn(w, int(t))
		}
	}))
}

// fail notes an error; the first one stays and stops the step.
func (p *pool) fail(err error) {
	if err != nil {
		p.fault.CompareAndSwap(nil, &err)
	}
}

// stopped says that no further tile should start.
func (p *pool) stopped() bool {
	return p.abort != nil && p.abort.Load() || p.fault.Load() != nil
}

// firstLines lists lines [0, n).
func (w *worker) firstLines(n int) []int32 {
	for i := len(w.counting); i < n; i++ {
		w.counting = append(w.counting, int32(i))
	}
	return w.counting[:n]
}

func (p *pool) close() {
	for _, c := range p.wake {
		close(c)
	}
	p.wake = nil
}

// grow returns s with length n, reallocating when it is too short.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}
