package kvcache

import (
	"errors"
	"slices"
	"testing"
)

func TestDrill(t *testing.T) {
	var guards []string
	for _, trial := range Drill() {
		guards = append(guards, trial.Guard)
		if !trial.Held() {
			t.Errorf("%s: %d foreign rows, stopped %v, error %v", trial.Guard, trial.Foreign, trial.Stopped, trial.Err)
		}
		if silent := slices.Contains([]string{"none", "SCRUB", "QUIET", "KEY", "SCOPE"}, trial.Guard); silent != (trial.Stopped == nil) {
			t.Errorf("%s: stopped by %v", trial.Guard, trial.Stopped)
		}
	}
	if want := []string{"none", "none", "ADMIT", "TERM", "HAND", "MARK", "SCRUB", "QUIET", "GEN", "SUM", "KEY", "SCOPE"}; !slices.Equal(guards, want) {
		t.Errorf("trials of %v, want %v", guards, want)
	}
}

// Without any guard the rows are there to be read.
func TestDrillSees(t *testing.T) {
	if trial := foundingTrial(""); trial.Foreign < drillPrompt-drillPage || trial.Err != nil {
		t.Errorf("founding: %+v", trial)
	}
	if trial := lateTrial(""); trial.Foreign == 0 || trial.Err != nil {
		t.Errorf("late: %+v", trial)
	}
}

// What scrubbing left behind is found.
func TestCheckScrubbed(t *testing.T) {
	for _, scrubs := range []bool{true, false} {
		m := &drillStore{scrubs: scrubs}
		p, err := drillPool(6, false, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := soak(p, m, 9); err != nil {
			t.Fatal(err)
		}
		if err := p.CheckScrubbed(); (err == nil) != scrubs || err != nil && !errors.Is(err, ErrStalePage) {
			t.Errorf("scrubs %v: %v", scrubs, err)
		}
		if n := p.Stats().Integrity; (n == 0) != scrubs {
			t.Errorf("scrubs %v: %d integrity errors", scrubs, n)
		}
		p.Close()
	}
}
