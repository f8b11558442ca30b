package cpu

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// pool runs phases of work on a fixed number of workers, the caller being one.
//
// A phase is a number of tasks, claimed one by one. Nobody waits for a worker
// that has claimed nothing: on a busy host, where a thread may not get a core for
// milliseconds, the others do its share. Who finds nothing to do spins for about
// as long as the gap between two phases, then sleeps.
type pool struct {
	workers []*worker
	helpers []*helper // one per worker but the first

	// open holds the phase's number in its upper half and the tasks not yet
	// claimed in its lower half. A claim is one step, so a worker that comes late
	// cannot take a task of a phase that it does not know, and a claimed task
	// keeps its phase from ending and the fields below as they are.
	open  atomic.Uint64
	tasks int
	phase phase
	op    string // the operation that runs, for errors
	abort *atomic.Bool

	left   atomic.Int64  // tasks of the phase that have not ended
	asleep atomic.Bool   // the caller waits for ended
	ended  chan struct{} // the last task ended
	closed atomic.Bool
	spins  bool // there is a processor for each worker
	fault  atomic.Pointer[error]
}

// helper is how a worker other than the caller is woken.
type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
}

func newPool(threads int) *pool {
	p := &pool{ended: make(chan struct{}, 1), spins: threads <= runtime.GOMAXPROCS(0)}
	for i := range threads {
		w := &worker{}
		p.workers = append(p.workers, w)
		if i == 0 {
			continue
		}
		h := &helper{wake: make(chan struct{}, 1)}
		p.helpers = append(p.helpers, h)
		go p.help(w, h)
	}
	return p
}

// phase is what the tasks of a phase have in common. Phases are kept in the
// backend and used again, so that a step allocates nothing.
type phase interface {
	task(w *worker, i int)
}

// run runs every task in [0, tasks), each exactly once unless the step is aborted
// or a worker faulted.
func (p *pool) run(tasks int, ph phase) {
	if tasks <= 0 {
		return
	}
	p.tasks, p.phase = tasks, ph
	p.left.Store(int64(tasks))
	number := p.open.Load()>>32 + 1
	p.open.Store(number<<32 | uint64(tasks))
	for _, h := range p.helpers[:min(len(p.helpers), tasks-1)] {
		h.rouse()
	}
	p.drain(p.workers[0])
	if p.spin(func() bool { return p.left.Load() == 0 }) {
		return
	}
	p.asleep.Store(true)
	if p.left.Load() > 0 || !p.asleep.CompareAndSwap(true, false) {
		<-p.ended
	}
}

// help is the life of a worker other than the caller.
func (p *pool) help(w *worker, h *helper) {
	waiting := func() bool { return uint32(p.open.Load()) > 0 || p.closed.Load() }
	for !p.closed.Load() {
		p.drain(w)
		if p.spin(waiting) {
			continue
		}
		h.asleep.Store(true)
		if waiting() && h.asleep.CompareAndSwap(true, false) {
			continue
		}
		<-h.wake
	}
}

// rouse wakes a worker that sleeps.
func (h *helper) rouse() {
	if h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// drain works until no task is left to claim. After an abort or a fault, tasks
// are claimed but not run.
func (p *pool) drain(w *worker) {
	for {
		running := false
		err := guard("", func() {
			for task, ok := p.claim(); ok; task, ok = p.claim() {
				running = true
				if !p.stopped() {
					p.phase.task(w, task)
				}
				running = false
				p.end()
			}
		})
		if !running {
			return
		}
		p.fail(named(err, p.op))
		p.end()
	}
}

// named gives a fault the operation it happened in.
func named(err error, op string) error {
	var fault *backend.FaultError
	if errors.As(err, &fault) {
		fault.Op = op
	}
	return err
}

// claim takes a task that nobody has taken.
func (p *pool) claim() (task int, ok bool) {
	for {
		w := p.open.Load()
		left := int(uint32(w))
		if left == 0 {
			return 0, false
		}
		if p.open.CompareAndSwap(w, w-1) {
			return p.tasks - left, true
		}
	}
}

// end notes that a claimed task is done with.
func (p *pool) end() {
	if p.left.Add(-1) == 0 && p.asleep.CompareAndSwap(true, false) {
		p.ended <- struct{}{}
	}
}

// spin waits for a condition for some 20 microseconds, giving way to other
// goroutines, and reports whether it came about.
func (p *pool) spin(done func() bool) bool {
	for i := range 64 {
		if done() {
			return true
		}
		if !p.spins {
			return false
		}
		if i%8 == 7 {
			runtime.Gosched()
		}
		kernel.Pause(8)
	}
	return done()
}

// fail notes an error; the first one stays and stops the step.
func (p *pool) fail(err error) {
	if err == nil {
		return
	}
	first := err
	p.fault.CompareAndSwap(nil, &first)
}

// stopped says that no further tile should start.
func (p *pool) stopped() bool {
	return p.abort != nil && p.abort.Load() || p.fault.Load() != nil
}

func (p *pool) close() {
	p.closed.Store(true)
	for _, h := range p.helpers {
		h.rouse()
	}
}
