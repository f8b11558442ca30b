//go:build cofferdam_unsafe

package kvcache

import "testing"

// The drill tells of every guard that is off. TestGuardMatrices runs this.
func TestDrillMatrix(t *testing.T) {
	for _, guard := range []string{"ADMIT", "TERM", "HAND", "MARK", "SCRUB", "QUIET", "GEN", "SUM"} {
		t.Run(guard, func(t *testing.T) {
			without(t, map[string]bool{guard: true})
			for _, trial := range Drill() {
				if trial.Guard == guard && trial.Foreign == 0 {
					t.Errorf("%+v", trial)
				}
			}
		})
	}
}
