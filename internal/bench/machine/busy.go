package machine

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Busy says how the machine was used between [Watch] and [Watcher.Stop].
type Busy struct {
	Known   bool
	Seconds float64
	Own     float64 // processors used by this process and its watched children
	Foreign float64 // processors used by others of this machine
	Steal   float64 // processors that the host gave to other machines
	Load    string  // load averages of 1, 5 and 15 minutes at the end
}

func (b Busy) String() string {
	if !b.Known {
		return "how busy the machine was is not known here"
	}
	return fmt.Sprintf("%.1f s; of %d processors %.2f our own, %.2f others', %.2f stolen by the host; load %s",
		b.Seconds, runtime.NumCPU(), b.Own, b.Foreign, b.Steal, b.Load)
}

// A Watcher is a measurement of the machine's use in progress.
type Watcher struct {
	start       time.Time
	ok          bool
	busy, steal float64
	children    []int
	own         float64
}

// Watch begins a measurement; children are processes whose use counts as our own.
func Watch(children ...int) *Watcher {
	w := &Watcher{start: time.Now(), children: children}
	w.busy, w.steal, w.ok = total()
	w.own = w.ownTime()
	return w
}

// Stop ends the measurement. Children must still run.
func (w *Watcher) Stop() Busy {
	b := Busy{Known: w.ok, Seconds: time.Since(w.start).Seconds()}
	busy, steal, ok := total()
	if !ok || !w.ok {
		return b
	}
	b.Own = (w.ownTime() - w.own) / b.Seconds
	b.Steal = (steal - w.steal) / b.Seconds
	b.Foreign = max(0, (busy-w.busy)/b.Seconds-b.Own)
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		b.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return b
}

// tick is the unit of /proc/stat, which Linux fixes for user space.
const tick = 0.01

// total returns the seconds that processors were busy for this machine and stolen
// from it.
func total() (busy, steal float64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := numbers(strings.Fields(line))
	if len(f) < 9 { // cpu user nice system idle iowait irq softirq steal
		return 0, 0, false
	}
	return tick * (f[1] + f[2] + f[3] + f[6] + f[7]), tick * f[8], true
}

func (w *Watcher) ownTime() (sum float64) {
	for _, pid := range append([]int{os.Getpid()}, w.children...) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold spaces; utime and stime are the 14th and
		// 15th field, counted from the process id.
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := numbers(strings.Fields(rest)); len(f) > 12 {
			sum += tick * (f[11] + f[12])
		}
	}
	return sum
}

func numbers(fields []string) []float64 {
	v := make([]float64, len(fields))
	for i, f := range fields {
		v[i], _ = strconv.ParseFloat(f, 64) // what is no number is not used
	}
	return v
}
