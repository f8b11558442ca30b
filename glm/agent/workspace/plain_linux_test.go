package workspace

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// plainly runs f as somebody whom permissions bind: root gives up its rights to
// files on one thread, which ends with the goroutine.
func plainly(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		if err := syscall.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}
