package offheap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func advise(b []byte, want bool) {
	advice := unix.MADV_DONTNEED
	if want {
		advice = unix.MADV_WILLNEED
	}
	// The call wants whole pages: go back to where the first one begins. A
	// neighbour's bytes on the two outer pages lose their place too and are
	// found again when they are read.
	page := uintptr(os.Getpagesize() - 1)
	p := unsafe.Pointer(unsafe.SliceData(b))
	back := uintptr(p) & page
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(p, -int(back))), len(b)+int(back)), advice)
}

func adviseFile(f *os.File, off, n int64, want bool) {
	advice := unix.FADV_DONTNEED
	if want {
		advice = unix.FADV_WILLNEED
	}
	rc, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) { _ = unix.Fadvise(int(fd), off, n, advice) })
}
