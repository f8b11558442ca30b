package offheap

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Advice changes no byte, wherever its edges fall, and takes none of a region
// that has no file.
func TestAdviceChangesNothing(t *testing.T) {
	want := make([]byte, 5*4096+77)
	for i := range want {
		want[i] = byte(i * 7)
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := MapFile(f, int64(len(want)))
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	own, err := Alloc(len(want))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	copy(own.Bytes(), want)
	for _, r := range []*Region{mapped, own} {
		for _, part := range [][2]int{{0, 1}, {1, 4097}, {4095, 8193}, {5000, 5001}, {0, len(want)}, {20000, len(want)}, {-1, 5}, {9, 9}, {0, len(want) + 1}} {
			r.Want(part[0], part[1])
			r.Forget(part[0], part[1])
			if !bytes.Equal(r.Bytes(), want) {
				t.Fatalf("bytes changed after advice about %v", part)
			}
		}
	}
	WantFile(f, 0, int64(len(want)))
	ForgetFile(f, 0, int64(len(want)))
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("file changed: %v", err)
	}
	if err := mapped.Close(); err != nil {
		t.Fatal(err)
	}
	mapped.Forget(0, 100) // nothing to do, and no fault
}
