// Package machine measures what the machine gives beside a benchmark: how fast memory
// is read, how fast f32 is multiplied, and how much of the processors others took.
//
// # Caveats
//
// On a shared host the figures move within minutes. Measure them next to what is
// compared with them, and print both. [Watch] needs Linux; elsewhere its shares are
// zero and Known is false.
package machine

import (
	"slices"
	"sync"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// spend is how long one measurement takes.
const spend = 300 * time.Millisecond

// A Meter measures the machine with a number of threads.
type Meter struct {
	threads int
	memory  *offheap.Region
	at      int
	sums    []float32
}

// NewMeter takes memory to be read, far more than caches hold, in large pages where
// the system has them. Close frees it.
func NewMeter(threads int) (*Meter, error) {
	memory, err := offheap.AllocHuge(256 << 20)
	if err != nil {
		return nil, err
	}
	return &Meter{threads: threads, memory: memory, sums: make([]float32, threads)}, nil
}

// Close frees the memory.
func (m *Meter) Close() error { return m.memory.Close() }

// Read returns the bytes per second that all threads together read, by the median
// of pieces of 32 MiB.
func (m *Meter) Read() float64 {
	const part = 32 << 20
	data := m.memory.Bytes()
	each := part / m.threads / 4096 * 4096
	median := repeat(func() {
		piece := data[m.at:][:part]
		m.at = (m.at + part) % len(data)
		inParallel(m.threads, func(t int) { m.sums[t] = Read(piece[t*each:][:each]) })
	})
	return float64(m.threads*each) / median
}

// Peak returns the f32 operations per second that all threads together reach on
// registers, by the median; 0 on processors that there is no kernel for.
func (m *Meter) Peak() float64 {
	const rounds = 1_000_000
	operations := make([]float64, m.threads)
	median := repeat(func() {
		inParallel(m.threads, func(t int) { operations[t] = Multiply(rounds) })
	})
	var sum float64
	for _, n := range operations {
		sum += n
	}
	return sum / median
}

func inParallel(threads int, f func(thread int)) {
	var wg sync.WaitGroup
	for t := 1; t < threads; t++ {
		wg.Go(func() { f(t) })
	}
	f(0)
	wg.Wait()
}

// repeat returns the median of the seconds that f takes.
func repeat(f func()) float64 {
	f()
	var times []float64
	for start := time.Now(); len(times) < 5 || time.Since(start) < spend; {
		t := time.Now()
		f()
		times = append(times, time.Since(t).Seconds())
	}
	return Median(times)
}

// Median sorts times and returns the middle one.
func Median(times []float64) float64 {
	slices.Sort(times)
	n := len(times)
	return (times[(n-1)/2] + times[n/2]) / 2
}
