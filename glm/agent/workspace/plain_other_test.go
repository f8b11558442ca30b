//go:build !linux

package workspace

import (
	"os"
	"runtime"
	"testing"
)

// plainly runs f as somebody whom permissions bind.
func plainly(t *testing.T, f func()) {
	t.Helper()
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("permissions of a folder bind nobody here")
	}
	f()
}
