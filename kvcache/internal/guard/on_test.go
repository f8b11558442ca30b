//go:build !cofferdam_unsafe

package guard_test

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/kvcache/internal/guard"
)

// allOn compiles only if every guard is a constant: a normal build has nothing
// that could be switched off.
const allOn = guard.Admit && guard.Term && guard.Hand && guard.Mark && guard.Scrub && guard.Quiet && guard.Gen && guard.Sum

func TestGuardsAreConstants(t *testing.T) {
	if !allOn {
		t.Error("a guard is off")
	}
}
