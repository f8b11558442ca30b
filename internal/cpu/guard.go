package cpu

import (
	"fmt"
	"runtime/debug"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// guard runs f and turns a panic, and a read of mapped weights whose file was
// truncated, into a *backend.FaultError: that must fail a load or a step, not the
// program.
func guard(op string, f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &backend.FaultError{Op: op, Detail: fmt.Sprint(r), Stack: debug.Stack()}
		}
	}()
	if lost := offheap.Guard(f); lost != nil {
		return &backend.FaultError{Op: op, Lost: true, Detail: lost.Error()}
	}
	return nil
}
