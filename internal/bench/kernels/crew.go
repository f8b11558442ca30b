package main

import (
	"sync/atomic"

	"github.com/cofferdam-ml/cofferdam/internal/bench/machine"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// crew measures the machine with as many threads as the backend has. Reading eight
// mebibytes takes a quarter of a millisecond, and waking a thread a tenth of that:
// between its pieces of work the crew spins, so that the time is the machine's. It
// sleeps while the backend works.
type crew struct {
	members []*member
	current atomic.Pointer[job]
	sink    atomic.Uint32
}

// member is a thread besides the caller.
type member struct {
	wake chan bool // false to end
	rest atomic.Bool
	idle chan struct{} // it no longer spins
}

// job is some tasks, claimed one by one: nobody waits for a thread that has no core.
type job struct {
	task       func(i int)
	tasks      int64
	next, left atomic.Int64
}

func newCrew(threads int) *crew {
	c := new(crew)
	for range threads - 1 {
		m := &member{wake: make(chan bool), idle: make(chan struct{})}
		c.members = append(c.members, m)
		go c.serve(m)
	}
	return c
}

func (c *crew) serve(m *member) {
	for <-m.wake {
		for !m.rest.Load() {
			if j := c.current.Load(); j != nil {
				j.drain()
			}
			kernel.Pause(4)
		}
		m.idle <- struct{}{}
	}
}

func (j *job) drain() {
	for i := j.next.Add(1) - 1; i < j.tasks; i = j.next.Add(1) - 1 {
		j.task(int(i))
		j.left.Add(-1)
	}
}

// muster has the threads spin until dismiss.
func (c *crew) muster() {
	for _, m := range c.members {
		m.rest.Store(false)
		m.wake <- true
	}
}

func (c *crew) dismiss() {
	c.current.Store(nil)
	for _, m := range c.members {
		m.rest.Store(true)
		<-m.idle
	}
}

func (c *crew) close() {
	for _, m := range c.members {
		m.wake <- false
	}
}

// each runs tasks on all threads.
func (c *crew) each(tasks int, task func(i int)) {
	j := &job{task: task, tasks: int64(tasks)}
	j.left.Store(j.tasks)
	c.current.Store(j)
	j.drain()
	for j.left.Load() > 0 {
		kernel.Pause(4)
	}
}

// read reads data and returns how many bytes that were.
func (c *crew) read(data []byte) float64 {
	const piece = 256 << 10
	n := len(data) / piece
	c.each(n, func(i int) {
		if machine.Read(data[i*piece:][:piece]) != 0 { // so that it is read
			c.sink.Add(1)
		}
	})
	return float64(n * piece)
}

// multiply multiplies f32 on registers for some hundred microseconds and returns how
// many operations that were; 0 where there is no kernel that reaches the peak.
func (c *crew) multiply() float64 {
	const pieces, rounds = 32, 4000
	var done [pieces]float64
	c.each(pieces, func(i int) { done[i] = machine.Multiply(rounds) })
	sum := 0.0
	for _, n := range done {
		sum += n
	}
	return sum
}
