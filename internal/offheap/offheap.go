// Package offheap holds memory that the Go heap does not: anonymous pages and
// read-only views of files.
//
// # Why
//
// A checkpoint of hundreds of gigabytes and a KV pool of tens would, on the Go
// heap, be scanned for nothing and double the resident size, because the
// collector paces itself by the live heap. Memory from this package is invisible
// to the collector: it does not count, it is not scanned, and it is returned to
// the system at a moment that the program chooses.
//
// # Regions
//
// [Alloc] gives zeroed memory, [MapFile] a view of a file's first bytes. Both
// return a [Region], which is released by [Region.Close] and by nothing else:
// there is no finalizer. [InUse] counts what is mapped at present, so that a
// test can assert that everything came back.
//
// [AllocHuge] is for gigabytes that are read over and over, such as weights: the
// processor finds a large page with one look-up where small ones cost 512. It
// takes the memory at once or says that there is too little ([Available] is what
// it asks), so that a program learns it while it can still do something else.
//
// # Files larger than memory
//
// Who reads a large file once, in order, says so with [Region.Want] and
// [Region.Forget] of a mapping, or [WantFile] and [ForgetFile] of a file: the disk
// is kept busy ahead of the reader, and what was read does not fill memory.
//
// # Caveats
//
// A slice of a Region dies with it. Reading through one after Close is a fault
// that ends the process or, worse, reads another mapping: whoever calls Close
// must know that nobody reads.
//
// A file that is truncated while it is mapped takes its pages away: the next
// read of a lost page raises SIGBUS, which ends the process unless the read runs
// under [Guard]. Windows refuses to truncate a mapped file. On other systems
// the cure is in how files are replaced: write a new file and rename it over the
// old one, never write into the old one.
//
// Memory is mapped in whole pages, but a Region's length and the counter are in
// the bytes that were asked for.
package offheap

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

// ErrSize reports a length that cannot be mapped: negative, or more bytes than
// the file holds.
var ErrSize = errors.New("offheap: size cannot be mapped")

// inUse counts the bytes of all open regions.
var inUse atomic.Int64

// InUse returns the number of bytes in regions that are not closed.
func InUse() int64 { return inUse.Load() }

// A Region is a range of memory outside the Go heap. Its methods may be called
// from several goroutines; the memory itself is as shared as any slice.
type Region struct {
	mu      sync.Mutex
	b       []byte
	release func() error // nil when there is nothing to give back
	file    bool         // a view of a file, which has the bytes too
}

func newRegion(b []byte, release func() error) *Region {
	inUse.Add(int64(len(b)))
	return &Region{b: b, release: release}
}

// Alloc maps n bytes of zeroed, writable memory. Pages are taken from the system
// when they are first touched; on Linux regions of 8 MiB and more ask for pages of 2
// MiB, see [AllocHuge], so that memory is taken in such steps. Alloc(0) is an empty
// region.
func Alloc(n int) (*Region, error) {
	if n < 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrSize, n)
	}
	if n == 0 {
		return newRegion(nil, nil), nil
	}
	take := alloc
	if n >= 4*hugePage {
		take = allocHuge
	}
	b, release, err := take(n)
	if err != nil {
		return nil, fmt.Errorf("offheap: map %d bytes: %w", n, err)
	}
	return newRegion(b, release), nil
}

// MapFile maps the first size bytes of f for reading. Writing to the region is a
// fault. f may be closed as soon as MapFile returns; the view stays.
func MapFile(f *os.File, size int64) (*Region, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("offheap: %w", err)
	}
	if size < 0 || size > fi.Size() || int64(int(size)) != size {
		return nil, fmt.Errorf("%w: %d bytes of a file of %d", ErrSize, size, fi.Size())
	}
	if size == 0 {
		return newRegion(nil, nil), nil
	}
	b, release, err := mapFile(f, int(size))
	if err != nil {
		return nil, fmt.Errorf("offheap: map %d bytes of a file: %w", size, err)
	}
	r := newRegion(b, release)
	r.file = true
	return r, nil
}

// Bytes returns the memory, page-aligned; nil after Close.
func (r *Region) Bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b
}

// Int32s returns the memory as 32-bit integers, like [Region.Float32s].
func (r *Region) Int32s() []int32 {
	f := r.Float32s()
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(f))), len(f))
}

// Float32s returns the same memory as 32-bit floats in the machine's byte order
// (little-endian on every target of this module), without a tail of less than
// four bytes; nil after Close.
func (r *Region) Float32s() []float32 {
	b := r.Bytes()
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// Close gives the memory back. Later calls do nothing and return nil. If the
// system refuses, the region stays open and counted, and Close may be retried.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.release != nil {
		if err := r.release(); err != nil {
			return fmt.Errorf("offheap: unmap %d bytes: %w", len(r.b), err)
		}
		r.release = nil
	}
	inUse.Add(-int64(len(r.b)))
	r.b = nil
	return nil
}
