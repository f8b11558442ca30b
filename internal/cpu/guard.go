package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// guard runs f and turns a panic into a *backend.FaultError. Reading a page of a
// file that was truncated under its mapping faults; that must fail a load or a
// step, not the program.
func guard(op string, f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault := &backend.FaultError{Op: op, Detail: fmt.Sprint(r)}
		// Only a memory fault at an address of its own tells the address.
		if _, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		}); ok {
			fault.Lost = true
		} else {
			fault.Stack = debug.Stack()
		}
		err = fault
	}()
	f()
	return nil
}
