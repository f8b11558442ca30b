package offheap

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// ErrLost reports that a page of a mapped file was read that is no longer there:
// the file was truncated.
var ErrLost = errors.New("offheap: a mapped page is gone, its file was truncated")

// Guard runs f, which reads mapped memory, and returns an error that wraps
// ErrLost if a page of it was gone. Other panics pass through. It covers f's own
// goroutine only.
func Guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// Only a fault at an address outside the runtime's own tells the address.
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		err = fmt.Errorf("%w: %v", ErrLost, fault)
	}()
	f()
	return nil
}
