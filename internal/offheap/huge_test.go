package offheap

import (
	"errors"
	"strings"
	"testing"
	"unsafe"
)

func TestAllocHuge(t *testing.T) {
	for _, n := range []int{0, 1, hugePage - 1, hugePage, hugePage + 1, 9*hugePage + 4097} {
		start := InUse()
		r, err := AllocHuge(n)
		if err != nil {
			t.Fatal(err)
		}
		b := r.Bytes()
		if len(b) != n || cap(b) != n || InUse() != start+int64(n) {
			t.Fatalf("%d bytes, capacity %d, %d in use; want %d of each", len(b), cap(b), InUse()-start, n)
		}
		for i, v := range b {
			if v != 0 {
				t.Fatalf("byte %d of %d is %d; want zeroed memory", i, n, v)
			}
			b[i] = byte(i)
		}
		for i, v := range b {
			if v != byte(i) {
				t.Fatalf("byte %d of %d is %d, was written as %d", i, n, v, byte(i))
			}
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil || InUse() != start {
			t.Fatalf("close: %v, %d bytes left", err, InUse()-start)
		}
	}
}

func TestAllocHugeRefuses(t *testing.T) {
	start := InUse()
	if _, err := AllocHuge(-1); !errors.Is(err, ErrSize) {
		t.Errorf("AllocHuge(-1): %v; want ErrSize", err)
	}
	for _, n := range []int{1 << 50, 1<<63 - 1} {
		_, err := AllocHuge(n)
		var e *MemoryError
		if !errors.As(err, &e) || !errors.Is(err, ErrNoMemory) || e.Need < int64(n) {
			t.Fatalf("AllocHuge(%d): %#v; want a *MemoryError with the number", n, err)
		}
		if e.Have >= 0 && !strings.Contains(err.Error(), "are available") {
			t.Errorf("%v; want what is available in it", err)
		}
	}
	if InUse() != start {
		t.Errorf("%d bytes left", InUse()-start)
	}
}

func TestHugeAlignment(t *testing.T) {
	if Available() < 0 {
		t.Skip("large pages are asked for on Linux only")
	}
	for range 5 {
		r, err := AllocHuge(hugePage + 12345)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if at := uintptr(unsafe.Pointer(&r.Bytes()[0])); at%hugePage != 0 {
			t.Errorf("memory begins at %#x, not at a multiple of 2 MiB", at)
		}
	}
}
