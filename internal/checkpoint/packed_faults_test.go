package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// packedFile writes a file of the source's blobs and returns its path and bytes.
func packedFile(t testing.TB, dir string, s *packedSource) (string, []byte) {
	t.Helper()
	p, err := LoadPacked(t.Context(), packedKey, s.blobs, PackedOptions{Dir: dir, Make: s.make})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, packedKey.file())
	return path, mustRead(t, path)
}

// readOver puts a file in the way and reads it. If that succeeds, the blobs must be
// right; if not, the error must be typed.
func readOver(t *testing.T, s *packedSource, path string, file []byte, alloc func(int) (*offheap.Region, error)) error {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := newPackedHeader(packedKey, s.blobs)
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.read(t.Context(), path, &PackedOptions{alloc: alloc})
	if err == nil {
		s.check(t, p)
		return p.Close()
	}
	if _, miss := errors.AsType[*PackedMissError](err); !miss {
		typed(t, err)
	}
	return err
}

// loadOver puts a file in the way that readOver found fault with, and loads: the
// fault is reported, and the file is replaced by a good one.
func loadOver(t *testing.T, s *packedSource, path string, file []byte) {
	t.Helper()
	want := readOver(t, s, path, file, offheap.AllocHuge)
	stored, _, faults := s.load(t, PackedOptions{Dir: filepath.Dir(path)})
	if stored || len(faults) != 1 || faults[0].Error() != want.Error() {
		t.Fatalf("stored %v, faults %v; want %v", stored, faults, want)
	}
	if stored, _, faults := s.load(t, PackedOptions{Dir: filepath.Dir(path)}); !stored || len(faults) != 0 {
		t.Fatalf("not mended: stored %v, faults %v", stored, faults)
	}
}

// Every byte of a file inverted is found out or means nothing.
func TestPackedFlips(t *testing.T) {
	unchanged(t)
	s := newPackedSource(3, 70)
	path, file := packedFile(t, t.TempDir(), s)
	h, err := parsePacked("", file[:binary.LittleEndian.Uint64(file[16:])], int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range file {
		bad := slices.Clone(file)
		bad[i] ^= 1 << (i % 8)
		fault := readOver(t, s, path, bad, []func(int) (*offheap.Region, error){offheap.AllocHuge, noMemory}[i%2])
		if fault != nil && i%40 == 0 {
			loadOver(t, s, path, bad)
		}
		padding := i >= len(h.encode()) && !slices.ContainsFunc(h.blobs, func(b packedBlob) bool {
			return b.offset <= int64(i) && int64(i) < b.offset+b.Size
		})
		if padding == (fault != nil) {
			t.Errorf("byte %d, padding %v: %v", i, padding, fault)
		}
		for _, b := range h.blobs {
			if e, ok := errors.AsType[*CheckpointError](fault); b.offset <= int64(i) && int64(i) < b.offset+b.Size && (!ok || e.Tensor != b.Name || e.Offset != b.offset) {
				t.Errorf("byte %d of %s: %v; want its name and place", i, b.Name, fault)
			}
		}
	}
}

func TestPackedTruncated(t *testing.T) {
	unchanged(t)
	s := newPackedSource(3, 70)
	path, file := packedFile(t, t.TempDir(), s)
	for n := range file {
		if n == 0 || n == len(file)-1 {
			loadOver(t, s, path, file[:n])
		}
		if fault := readOver(t, s, path, file[:n], offheap.AllocHuge); !errors.Is(fault, ErrCorruptCheckpoint) {
			t.Errorf("%d of %d bytes: %v", n, len(file), fault)
		}
	}
	if fault := readOver(t, s, path, append(slices.Clone(file), 0), offheap.AllocHuge); !errors.Is(fault, ErrCorruptCheckpoint) {
		t.Errorf("a byte too many: %v", fault)
	}
}

// A flipped bit anywhere in a large blob is found out, by all readers.
func TestPackedBlobFlips(t *testing.T) {
	unchanged(t)
	s := newPackedSource(5<<20+3, 100, packedSpan+packedPiece+1, 77)
	path, file := packedFile(t, t.TempDir(), s)
	h, err := parsePacked("", file[:binary.LittleEndian.Uint64(file[16:])], int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range h.blobs {
		at := b.offset + b.Size*int64(i)/4
		file[at] ^= 0x10
		fault := readOver(t, s, path, file, []func(int) (*offheap.Region, error){offheap.AllocHuge, noMemory}[i%2])
		if e, ok := errors.AsType[*CheckpointError](fault); !ok || e.Tensor != b.Name || e.Offset != b.offset {
			t.Errorf("%s: %v", b.Name, fault)
		}
		file[at] ^= 0x10
	}
}

// resign gives a header that was tampered with the checksum that it should have.
func resign(file []byte, headerLen int) []byte {
	binary.LittleEndian.PutUint32(file[headerLen-4:], crc32.Checksum(file[:headerLen-4], castagnoli))
	return file
}

// Headers with a right checksum and wrong numbers.
func TestPackedHeaders(t *testing.T) {
	unchanged(t)
	s := newPackedSource(100, 200)
	path, file := packedFile(t, t.TempDir(), s)
	le := binary.LittleEndian
	n := int(le.Uint64(file[16:]))
	const entry = 2 + len("layer.0.weight") + 20
	first := n - 4 - 2*entry
	const name, offset, size = 2, entry - 20, entry - 12
	for _, c := range []struct {
		what string
		edit func(b []byte)
		at   int64 // of the error
		want string
	}{
		{"no blobs", func(b []byte) { le.PutUint32(b[12:], 0) }, 12, "blobs"},
		{"many blobs", func(b []byte) { le.PutUint32(b[12:], 1<<32-1) }, 12, "blobs"},
		{"one blob more", func(b []byte) { le.PutUint32(b[12:], 3) }, int64(n - 4), "length of a name"},
		{"one blob fewer", func(b []byte) { le.PutUint32(b[12:], 1) }, int64(n - 4 - entry), "checksum after 1"},
		{"header beyond the file", func(b []byte) { le.PutUint64(b[16:], 1<<20) }, 16, "header of"},
		{"header of nothing", func(b []byte) { le.PutUint64(b[16:], 0) }, 16, "header of"},
		{"header of 2^64-1", func(b []byte) { le.PutUint64(b[16:], 1<<64-1) }, 16, "header of"},
		{"another file size", func(b []byte) { le.PutUint64(b[24:], 1<<63) }, 24, "a file of"},
		{"a long fingerprint", func(b []byte) { le.PutUint16(b[32:], 65535) }, 32, "fingerprint of at most"},
		{"a fingerprint beyond the header", func(b []byte) { le.PutUint16(b[32:], 1000) }, 34, "fingerprint"},
		{"a name twice", func(b []byte) { copy(b[first+name:], b[first+entry+name:][:entry-22]) }, int64(first + entry), "name of its own"},
		{"an empty name", func(b []byte) { le.PutUint16(b[first:], 0) }, int64(first), "name of its own"},
		{"a name of bytes", func(b []byte) { b[first+name] = 0xff }, int64(first), "UTF-8"},
		{"overlapping", func(b []byte) { le.PutUint64(b[first+entry+offset:], le.Uint64(b[first+offset:])) }, int64(first + entry + offset), "offset"},
		{"inside the header", func(b []byte) { le.PutUint64(b[first+offset:], 0) }, int64(first + offset), "offset"},
		{"unaligned", func(b []byte) { b[first+offset]++ }, int64(first + offset), "offset"},
		{"negative offset", func(b []byte) { le.PutUint64(b[first+offset:], 1<<63) }, int64(first + offset), "offset of at most"},
		{"beyond the end", func(b []byte) { le.PutUint64(b[first+entry+size:], 201) }, int64(first + entry + size), "size of"},
		{"short of the end", func(b []byte) { le.PutUint64(b[first+entry+size:], 199) }, 24, "end of the last blob"},
		{"no size", func(b []byte) { le.PutUint64(b[first+size:], 0) }, int64(first + size), "size of"},
		{"a size that overflows", func(b []byte) { le.PutUint64(b[first+size:], 1<<63-1) }, int64(first + size), "size of"},
	} {
		bad := slices.Clone(file)
		c.edit(bad)
		resign(bad, n)
		fault := readOver(t, s, path, bad, offheap.AllocHuge)
		e, ok := errors.AsType[*CheckpointError](fault)
		if !ok || e.Offset != c.at || !strings.Contains(e.Want, c.want) || e.File != packedKey.file() {
			t.Errorf("%s: %v; want one at byte %d about %q", c.what, fault, c.at, c.want)
		}
	}
}

// Files that are sound and hold other blobs.
func TestPackedOtherBlobs(t *testing.T) {
	unchanged(t)
	dir := t.TempDir()
	s := newPackedSource(100, 200)
	path, _ := packedFile(t, dir, s)
	for what, blobs := range map[string][]Blob{
		"layer.1.weight": {s.blobs[0]},
		"layer.0.weight": {{"layer.0.weight", 101}, s.blobs[1]},
		"more":           {s.blobs[0], s.blobs[1], {"more", 5}},
	} {
		_, file := packedFile(t, dir, &packedSource{blobs: blobs})
		loadOver(t, s, path, file)
		fault := readOver(t, s, path, file, offheap.AllocHuge)
		if e, ok := errors.AsType[*CheckpointError](fault); !ok || e.Tensor != what {
			t.Errorf("%s: %v", what, fault)
		}
	}
}

// What stands where the file belongs and is none.
func TestPackedNoFile(t *testing.T) {
	unchanged(t)
	s := newPackedSource(100)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, packedKey.file(), "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, faults := s.load(t, PackedOptions{Dir: dir})
	if len(faults) != 2 {
		t.Fatalf("a directory in the way: %v", faults)
	}
	typed(t, faults[0])
	if e, ok := errors.AsType[*PackedWriteError](faults[1]); !ok || e.Op != "rename" {
		t.Errorf("%v; want a *PackedWriteError of the rename", faults[1])
	}
	if got := listing(t, dir); !slices.Equal(got, []string{packedKey.file()}) {
		t.Errorf("left %v", got)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, faults = s.load(t, PackedOptions{Dir: filepath.Join(file, "below")})
	e, ok := errors.AsType[*PackedWriteError](faults[len(faults)-1])
	if !ok || e.Op != "make directory" {
		t.Errorf("a file for a directory: %v", faults)
	}
}

// A disk that fails at any step costs the file, never the load, and leaves the old
// file, none or a whole one. Where there is no memory to load into, it costs the
// load.
func TestPackedWriteFaults(t *testing.T) {
	unchanged(t)
	s := newPackedSource(packedPiece+1, 100, packedPiece)
	const flush = packedPiece / 2
	var mu sync.Mutex // steps run beside flushes
	var ops []string
	s.load(t, PackedOptions{Dir: t.TempDir(), flush: flush, fault: func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
		return nil
	}})
	for _, op := range []string{"make directory", "create", "write", "flush", "sync", "close", "rename", "sync directory"} {
		if !slices.Contains(ops, op) {
			t.Errorf("no step %q in %v", op, ops)
		}
	}
	for step := 0; ; step++ {
		for _, old := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, packedKey.file())
			var before []byte
			if old { // of other weights, so that it is replaced
				k := packedKey
				k.Weights = packedKey.Weights[:16] + "other"
				p, err := LoadPacked(t.Context(), k, s.blobs, PackedOptions{Dir: dir, Make: s.make})
				if err != nil {
					t.Fatal(err)
				}
				p.Close()
				before = mustRead(t, path)
			}
			n, failed := 0, ""
			o := PackedOptions{Dir: dir, flush: flush, fault: func(op string) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n == step+1 {
					failed = op
					return syscall.ENOSPC
				}
				return nil
			}}
			_, _, faults := s.load(t, o)
			if failed == "" {
				if step < len(ops) {
					t.Fatalf("only %d steps", step)
				}
				return
			}
			last := faults[len(faults)-1]
			if e, ok := errors.AsType[*PackedWriteError](last); !ok || e.Op != failed || !errors.Is(last, syscall.ENOSPC) || e.File != packedKey.file() {
				t.Errorf("%s: %v; want a *PackedWriteError of it", failed, last)
			}
			switch got := listing(t, dir); {
			case failed == "sync directory": // whole, only not sure to outlive a power cut
				if stored, _, _ := s.load(t, PackedOptions{Dir: dir}); !stored {
					t.Errorf("%s: no whole file", failed)
				}
			case old && (len(got) != 1 || string(mustRead(t, path)) != string(before)) || !old && len(got) != 0:
				t.Errorf("%s: left %v", failed, got)
			}
			n = 0
			small := o
			small.alloc, small.Make, small.Dir = noMemory, s.make, t.TempDir()
			_, err := LoadPacked(t.Context(), packedKey, s.blobs, small)
			if e, ok := errors.AsType[*PackedWriteError](err); !ok || e.Op != failed {
				t.Errorf("%s without memory: %v; want the *PackedWriteError", failed, err)
			}
		}
	}
}

// A writer that is killed leaves an unfinished file, which disturbs nobody and is
// removed when it is old.
func TestPackedKilledWriter(t *testing.T) {
	if dir := os.Getenv("COFFERDAM_PACKED_WRITER"); dir != "" {
		s := newPackedSource(100, 200)
		_, err := LoadPacked(t.Context(), packedKey, s.blobs, PackedOptions{Dir: dir, Make: func(i int, dst []byte) error {
			if i == 1 {
				os.Stdout.WriteString("writing\n")
				time.Sleep(time.Hour)
			}
			return s.make(i, dst)
		}})
		t.Fatalf("was to be killed: %v", err)
	}
	unchanged(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPackedKilledWriter$")
	cmd.Env = append(os.Environ(), "COFFERDAM_PACKED_WRITER="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || line != "writing\n" {
		t.Fatalf("the writer said %q: %v", line, err)
	}
	left := listing(t, dir)
	if len(left) != 1 || left[0] == packedKey.file() {
		t.Fatalf("a killed writer left %v; want an unfinished file", left)
	}
	s := newPackedSource(100, 200)
	if stored, _, faults := s.load(t, PackedOptions{Dir: dir}); stored || len(faults) != 0 {
		t.Fatalf("stored %v, faults %v", stored, faults)
	}
	if got := listing(t, dir); len(got) != 2 {
		t.Fatalf("%v; want the young unfinished file left alone", got)
	}
	long := time.Now().Add(-2 * packedStale)
	if err := os.Chtimes(filepath.Join(dir, left[0]), long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, packedKey.file())); err != nil {
		t.Fatal(err)
	}
	s.load(t, PackedOptions{Dir: dir})
	if got := listing(t, dir); !slices.Equal(got, []string{packedKey.file()}) {
		t.Fatalf("%v; want the old unfinished file gone", got)
	}
}
