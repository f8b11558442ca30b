package offheap

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// hugePage is the size of a large page on amd64 and, with 4 KiB base pages, arm64.
const hugePage = 2 << 20

// ErrNoMemory reports memory that the system does not have now. The detail is a
// *MemoryError.
var ErrNoMemory = errors.New("offheap: not enough memory")

// MemoryError says how much was asked for and how much there is. It matches
// ErrNoMemory and, when the system refused, its error.
type MemoryError struct {
	Need int64 // bytes, with the sixteenth that AllocHuge leaves to others
	Have int64 // bytes available; -1 where the system does not say
	Err  error // cause from the system, or nil
}

func (e *MemoryError) Error() string {
	s := fmt.Sprintf("%v: need %d bytes", ErrNoMemory, e.Need)
	if e.Have >= 0 {
		s += fmt.Sprintf(", %d are available", e.Have)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrNoMemory and the cause.
func (e *MemoryError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrNoMemory}
	}
	return []error{ErrNoMemory, e.Err}
}

// AllocHuge returns n bytes of zeroed, writable memory that is there already: no
// later touch of it waits for the system. On Linux it begins at a multiple of
// 2 MiB and asks for pages of that size, which two cores read about a fifth
// faster than small ones; whether it gets them is the system's affair. Less than
// 2 MiB, and other systems, get ordinary pages.
//
// It is a *MemoryError if fewer than n*17/16 bytes are available: filling memory
// to the last page would have the system end somebody, perhaps this process.
func AllocHuge(n int) (*Region, error) {
	if n < hugePage {
		return Alloc(n)
	}
	need := int64(n) + min(int64(n)/16, math.MaxInt64-int64(n))
	have := Available()
	if have >= 0 && have < need {
		return nil, &MemoryError{Need: need, Have: have}
	}
	b, release, err := allocHuge(n)
	if err != nil {
		return nil, &MemoryError{Need: need, Have: have, Err: err}
	}
	r := newRegion(b, release)
	if err := faultIn(b); err != nil {
		return nil, errors.Join(&MemoryError{Need: need, Have: have, Err: err}, r.Close())
	}
	return r, nil
}

// faultIn has the system find and clear the pages of b. Clearing is bound by one
// core's stores, hence the goroutines.
func faultIn(b []byte) error {
	workers := min(runtime.GOMAXPROCS(0), 8)
	share := (len(b)/workers + hugePage - 1) / hugePage * hugePage
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		lo := min(i*share, len(b))
		hi := min(lo+share, len(b))
		wg.Go(func() { errs[i] = populate(b[lo:hi]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// touch writes to every small page of b, which must be zero still.
func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 0
	}
}
