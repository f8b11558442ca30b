package machine

import (
	"runtime"
	"testing"
	"time"
)

// Work of this process counts as its own, however little of the machine it gets.
func TestWatchSeesOwnWork(t *testing.T) {
	w := Watch()
	if runtime.GOOS == "linux" && !w.ok {
		t.Fatal("/proc/stat was not understood")
	}
	const work = 0.1 // seconds of a processor
	for start := time.Now(); w.ownTime() < w.own+work && (w.ok || time.Since(start) < time.Second); {
	}
	b := w.Stop()
	if have := b.Own * b.Seconds; b.Known && have < work*0.99 {
		t.Errorf("%.3f seconds of own work, want %g at least: %v", have, work, b)
	}
}

func TestMeterIsFiniteAndPositive(t *testing.T) {
	m, err := NewMeter(2)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if v := m.Read(); !(v > 1e6 && v < 1e15) {
		t.Errorf("%g bytes per second", v)
	}
	if v := m.Peak(); runtime.GOARCH == "amd64" && !(v > 1e8 && v < 1e13) {
		t.Errorf("%g operations per second", v)
	}
}
