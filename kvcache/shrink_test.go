package kvcache

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// shrink removes parts of a failing history, half of it at first, single events
// at last, as long as what is left still fails; then it makes arguments small.
// What it returns fails, and no longer does if any one event is left out.
func shrink(history []simOp, fails func([]simOp) bool) []simOp {
	for size := max(len(history)/2, 1); ; {
		removed := false
		for at := 0; at < len(history); {
			rest := slices.Delete(slices.Clone(history), at, min(at+size, len(history)))
			if fails(rest) {
				history, removed = rest, true
			} else {
				at += size
			}
		}
		if size == 1 && !removed {
			break
		}
		if !removed {
			size /= 2
		}
	}
	for i := range history {
		for _, arg := range []func(*simOp) *int{
			func(o *simOp) *int { return &o.a }, func(o *simOp) *int { return &o.b }, func(o *simOp) *int { return &o.c },
		} {
			for _, small := range []int{0, 1, 2} {
				simpler := slices.Clone(history)
				if *arg(&simpler[i]) > small {
					*arg(&simpler[i]) = small
					if fails(simpler) {
						history = simpler
						break
					}
				}
			}
		}
	}
	return history
}

func TestSimulation(t *testing.T) {
	seeds := *simSeeds
	if testing.Short() {
		seeds = min(seeds, 100)
	}
	met, events := map[string]int{}, 0
	for i := range uint64(seeds) {
		seed := *simSeed + i
		history := simHistory(seed)
		events += len(history)
		s := simulate(t, seed, history)
		if s.failed != nil {
			first := s.failed // a failure that hangs on the scheduler may not come again
			short := shrink(history, func(h []simOp) bool { return simulate(t, seed, h).failed != nil })
			s = simulate(t, seed, short)
			t.Fatalf("seed %d: %v\nshortest history: %d of %d events, which fails with %v:\n  %s", seed, first, len(short), len(history), s.failed, strings.Join(s.log, "\n  "))
		}
		for k, n := range s.met {
			met[k] += n
		}
	}
	t.Logf("%d histories, %d events, met %v", seeds, events, met)
	for _, k := range []string{
		"prefix hit", "queue", "requeue", "abort", "end during a step", "committed", "quiet", "late write dropped", "copy refused", "refused",
	} {
		if met[k] == 0 && seeds >= 100 {
			t.Errorf("never met: %s", k)
		}
	}
}

// One seed, one history: a run says the same as the run before.
func TestSimulationRepeats(t *testing.T) {
	for seed := range uint64(40) {
		a, b := simulate(t, seed, simHistory(seed)), simulate(t, seed, simHistory(seed))
		if !slices.Equal(a.log, b.log) || fmt.Sprint(a.failed) != fmt.Sprint(b.failed) {
			t.Fatalf("seed %d:\n%s\nand then:\n%s", seed, strings.Join(a.log, "\n"), strings.Join(b.log, "\n"))
		}
	}
}

// A planted bug that takes a long history to show is shown by a short one, in
// which every event is needed.
func TestSimulationShrinks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(plantedBugs, func(b bug) bool { return b.name == "a late write lands" })
	out, err := runTests(goTool, ".", plant(t, plantedBugs[i]), "TestSimulation")
	if err == nil {
		t.Fatal("the simulation passes with the bug")
	}
	short, long := 0, 0
	if _, rest, ok := strings.Cut(out, "shortest history: "); ok {
		fmt.Sscanf(rest, "%d of %d events", &short, &long)
	}
	// It takes: open a session, admit, issue the ticket, compute the prompt, send
	// it, end the request, and write late.
	if long < 40 || short < 5 || short > 9 || !strings.Contains(out, "a late write for session") {
		t.Fatalf("a history of %d events became one of %d:\n%s", long, short, out)
	}
	t.Log(out)
}

// What shrink returns fails, and nothing of it can be left out.
func TestShrinkIsMinimal(t *testing.T) {
	needed := map[int]bool{3: true, 40: true, 41: true, 99: true}
	runs := 0
	fails := func(h []simOp) bool {
		runs++
		n := 0
		for _, o := range h {
			if needed[o.kind] && o.a >= 2 {
				n++
			}
		}
		return n == len(needed)
	}
	var history []simOp
	for i := range 100 {
		history = append(history, simOp{i, i + 5, i, i})
	}
	short := shrink(history, fails)
	if want := []simOp{{3, 2, 0, 0}, {40, 2, 0, 0}, {41, 2, 0, 0}, {99, 2, 0, 0}}; !slices.Equal(short, want) {
		t.Errorf("%v, want %v", short, want)
	}
	if runs > 400 {
		t.Errorf("it took %d runs", runs)
	}
}
