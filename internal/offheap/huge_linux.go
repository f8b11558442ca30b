package offheap

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocHuge maps one large page too many and gives back what lies before and
// after the aligned part.
func allocHuge(n int) ([]byte, func() error, error) {
	size := (uintptr(n) + hugePage - 1) &^ (hugePage - 1)
	if int(size) < n {
		return nil, nil, os.NewSyscallError("mmap", unix.ENOMEM)
	}
	p, err := unix.MmapPtr(-1, 0, nil, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	head := -uintptr(p) & (hugePage - 1)
	base := unsafe.Add(p, head)
	if head > 0 {
		err = unix.MunmapPtr(p, head)
	}
	if err == nil {
		err = unix.MunmapPtr(unsafe.Add(base, size), hugePage-head)
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("munmap", err)
	}
	whole := unsafe.Slice((*byte)(base), size)
	_ = unix.Madvise(whole, unix.MADV_HUGEPAGE) // a kernel without large pages has small ones
	return whole[:n:n], func() error { return os.NewSyscallError("munmap", unix.MunmapPtr(base, size)) }, nil
}

// populate fails where touching the pages would end the process, which is why it
// is asked first. Kernels before 5.14 do not know it.
func populate(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		touch(b)
		return nil
	}
	return os.NewSyscallError("madvise", err)
}
