package offheap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestAlloc(t *testing.T) {
	start := InUse()
	r, err := Alloc(4099)
	if err != nil {
		t.Fatal(err)
	}
	b := r.Bytes()
	if len(b) != 4099 || InUse() != start+4099 {
		t.Fatalf("len %d, in use %d over the start; want 4099 both", len(b), InUse()-start)
	}
	for i, v := range b {
		if v != 0 {
			t.Fatalf("byte %d is %d; want zeroed memory", i, v)
		}
	}
	f := r.Float32s()
	if len(f) != 1024 {
		t.Fatalf("%d floats in 4099 bytes; want 1024", len(f))
	}
	f[1] = 1 // 0x3f800000
	if b[4] != 0 || b[6] != 0x80 || b[7] != 0x3f {
		t.Fatalf("float view is not the byte view: % x", b[4:8])
	}
	for range 3 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if r.Bytes() != nil || r.Float32s() != nil || InUse() != start {
		t.Fatalf("closed region still there: %d bytes in use over the start", InUse()-start)
	}
}

func TestAllocSizes(t *testing.T) {
	start := InUse()
	if _, err := Alloc(-1); !errors.Is(err, ErrSize) {
		t.Fatalf("Alloc(-1): %v; want ErrSize", err)
	}
	r, err := Alloc(0)
	if err != nil || len(r.Bytes()) != 0 {
		t.Fatalf("Alloc(0): %v, %v", r, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Alloc(1 << 62); err == nil {
		r.Close()
		t.Fatal("mapped 4 EiB")
	}
	if InUse() != start {
		t.Fatalf("in use %d, started at %d", InUse(), start)
	}
}

func TestMapFile(t *testing.T) {
	start := InUse()
	path := filepath.Join(t.TempDir(), "f")
	want := strings.Repeat("cofferdam", 1000)
	if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{-1, int64(len(want)) + 1, 1 << 62} {
		if _, err := MapFile(f, size); !errors.Is(err, ErrSize) {
			t.Fatalf("MapFile(%d): %v; want ErrSize", size, err)
		}
	}
	empty, err := MapFile(f, 0)
	if err != nil || len(empty.Bytes()) != 0 {
		t.Fatalf("MapFile(0): %v, %v", empty.Bytes(), err)
	}
	part, err := MapFile(f, 9)
	if err != nil {
		t.Fatal(err)
	}
	all, err := MapFile(f, int64(len(want)))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if string(part.Bytes()) != "cofferdam" || string(all.Bytes()) != want {
		t.Fatal("mapped bytes differ from the file's, after the file was closed")
	}
	if got := InUse() - start; got != int64(len(want))+9 {
		t.Fatalf("in use %d; want %d", got, len(want)+9)
	}
	for _, r := range []*Region{part, all, empty} {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if InUse() != start {
		t.Fatalf("in use %d, started at %d", InUse(), start)
	}
	if _, err := MapFile(f, 1); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("MapFile of a closed file: %v; want os.ErrClosed", err)
	}
}

func TestConcurrentClose(t *testing.T) {
	start := InUse()
	r, err := Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if InUse() != start {
		t.Fatalf("in use %d, started at %d: released more or less than once", InUse(), start)
	}
}
