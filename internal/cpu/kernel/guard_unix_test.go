//go:build unix

package kernel

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// atPageEnd copies data to the end of a page that an unreadable one follows: a
// kernel that reads too far faults.
func atPageEnd[T any](t *testing.T, data []T) []T {
	t.Helper()
	size := len(data) * int(unsafe.Sizeof(data[0]))
	page := os.Getpagesize()
	whole := (size + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, whole+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(mem[whole:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	out := unsafe.Slice((*T)(unsafe.Pointer(&mem[whole-size])), len(data))
	copy(out, data)
	return out
}
