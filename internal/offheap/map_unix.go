//go:build unix

package offheap

import (
	"os"

	"golang.org/x/sys/unix"
)

func alloc(n int) ([]byte, func() error, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return b, unmapper(b), nil
}

// mapFile shares the page cache: several processes over one checkpoint hold it
// in memory once.
func mapFile(f *os.File, n int) ([]byte, func() error, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var b []byte
	var mapErr error
	if err := rc.Control(func(fd uintptr) {
		b, mapErr = unix.Mmap(int(fd), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	}); err != nil {
		return nil, nil, err
	}
	if mapErr != nil {
		return nil, nil, os.NewSyscallError("mmap", mapErr)
	}
	return b, unmapper(b), nil
}

func unmapper(b []byte) func() error {
	return func() error { return os.NewSyscallError("munmap", unix.Munmap(b)) }
}
