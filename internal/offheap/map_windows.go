package offheap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func alloc(n int) ([]byte, func() error, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, nil, os.NewSyscallError("VirtualAlloc", err)
	}
	return view(addr, n), func() error {
		return os.NewSyscallError("VirtualFree", windows.VirtualFree(addr, 0, windows.MEM_RELEASE))
	}, nil
}

func mapFile(f *os.File, n int) ([]byte, func() error, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var addr uintptr
	var mapErr error
	if err := rc.Control(func(fd uintptr) { addr, mapErr = mapHandle(windows.Handle(fd), n) }); err != nil {
		return nil, nil, err
	}
	if mapErr != nil {
		return nil, nil, mapErr
	}
	return view(addr, n), func() error {
		return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(addr))
	}, nil
}

// mapHandle maps the first n bytes. The section object lives as long as its
// view, so its handle is closed at once.
func mapHandle(file windows.Handle, n int) (uintptr, error) {
	size := uint64(n)
	section, err := windows.CreateFileMapping(file, nil, windows.PAGE_READONLY, uint32(size>>32), uint32(size), nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateFileMapping", err)
	}
	defer windows.CloseHandle(section)
	addr, err := windows.MapViewOfFile(section, windows.FILE_MAP_READ, 0, 0, uintptr(n))
	if err != nil {
		return 0, os.NewSyscallError("MapViewOfFile", err)
	}
	return addr, nil
}

// view turns an address from the system into a slice. The double indirection
// keeps vet's unsafeptr check out of the way: the address is no Go pointer, so
// the collector neither moves nor frees what it names.
func view(addr uintptr, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}
