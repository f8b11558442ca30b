package machine

import (
	"runtime"
	"testing"
	"time"
)

// Work of this process counts as its own, and reading a buffer takes time.
func TestWatchSeesOwnWork(t *testing.T) {
	w := Watch()
	if runtime.GOOS == "linux" && !w.ok {
		t.Fatal("/proc/stat was not understood")
	}
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
	}
	b := w.Stop()
	if b.Seconds < 0.3 {
		t.Errorf("%.3f seconds, want 0.3 at least", b.Seconds)
	}
	if b.Known && b.Own <= 0.05 {
		t.Errorf("own use is %.2f processors over a busy loop: %v", b.Own, b)
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
