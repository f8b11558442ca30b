//go:build !purego

package kernel

import (
	"strings"
	"testing"
)

// Tests of this build test assembly. Its log line is what CI looks for.
func TestName(t *testing.T) {
	if !strings.HasPrefix(Name(), "NEON") {
		t.Fatalf("%q runs", Name())
	}
	t.Logf("kernels: %s", Name())
}
