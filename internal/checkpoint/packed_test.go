package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

var packedKey = PackedKey{Weights: "0123456789abcdef0123", Format: "int4", Version: 3, Layout: "avx2"}

// packedSource makes blobs whose bytes tell blob, place and salt.
type packedSource struct {
	blobs []Blob
	salt  byte
	made  int
}

func newPackedSource(sizes ...int64) *packedSource {
	s := &packedSource{}
	for i, n := range sizes {
		s.blobs = append(s.blobs, Blob{fmt.Sprintf("layer.%d.weight", i), n})
	}
	return s
}

func (s *packedSource) want(i int) []byte {
	b := make([]byte, s.blobs[i].Size)
	for j := range b {
		b[j] = byte(j) ^ byte(j>>8)*3 ^ byte(j>>16) ^ byte(i+1)*29 ^ s.salt
	}
	return b
}

func (s *packedSource) make(i int, dst []byte) error {
	s.made++
	if n := copy(dst, s.want(i)); n != len(dst) {
		return fmt.Errorf("dst has %d bytes, the blob %d", len(dst), n)
	}
	return nil
}

// check fails unless p holds exactly the blobs.
func (s *packedSource) check(t *testing.T, p *Packed) {
	t.Helper()
	for i, b := range s.blobs {
		got := p.Blob(b.Name)
		if !bytes.Equal(got, s.want(i)) {
			t.Fatalf("%s: %d bytes, not those that were made", b.Name, len(got))
		}
		if at := uintptr(unsafe.Pointer(&got[0])); at%packedAlign != 0 || cap(got) != len(got) {
			t.Fatalf("%s: at %#x with capacity %d", b.Name, at, cap(got))
		}
	}
	if p.Blob("other") != nil {
		t.Fatal("a blob that is not there")
	}
}

// noMemory stands for a machine that is too small.
func noMemory(n int) (*offheap.Region, error) {
	return nil, &offheap.MemoryError{Need: int64(n), Have: 1}
}

// load runs LoadPacked, holds the result against the source and says what was
// reported.
func (s *packedSource) load(t *testing.T, o PackedOptions) (stored, mapped bool, faults []error) {
	t.Helper()
	var last, total int64
	o.Make = s.make
	o.OnFault = func(err error) { faults, last = append(faults, err), -1 }
	o.OnProgress = func(done, all int64) {
		if done < last || done > all || total != 0 && all != total {
			t.Errorf("progress %d of %d after %d of %d", done, all, last, total)
		}
		last, total = done, all
	}
	p, err := LoadPacked(t.Context(), packedKey, s.blobs, o)
	if err != nil {
		t.Fatal(err)
	}
	s.check(t, p)
	if last != total || total == 0 {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil || p.Blob(s.blobs[0].Name) != nil {
		t.Fatalf("close: %v, and a blob afterwards", err)
	}
	return p.Stored, p.Mapped, faults
}

// listing names what is in a directory.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// unchanged fails at the end if handles or mappings are left.
func unchanged(t *testing.T) {
	t.Helper()
	files, mem := openFiles(t), offheap.InUse()
	t.Cleanup(func() {
		runtime.GC()
		if f, m := openFiles(t), offheap.InUse(); f != files || m != mem {
			t.Errorf("%d handles and %d bytes left", f-files, m-mem)
		}
	})
}

func TestPackedRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name  string
		alloc func(int) (*offheap.Region, error)
	}{{"in memory", nil}, {"mapped", noMemory}} {
		t.Run(c.name, func(t *testing.T) {
			unchanged(t)
			dir := filepath.Join(t.TempDir(), "made", "below")
			s := newPackedSource(1, 64, 63, 4096, 3<<20+5, 1<<20, 2)
			stored, mapped, faults := s.load(t, PackedOptions{Dir: dir, alloc: c.alloc})
			if stored || mapped != (c.alloc != nil) || len(faults) != 0 || s.made != len(s.blobs) {
				t.Fatalf("first: stored %v, mapped %v, %d blobs made, faults %v", stored, mapped, s.made, faults)
			}
			if got := listing(t, dir); !slices.Equal(got, []string{"0123456789abcdef-int4-3-avx2.packed"}) {
				t.Fatalf("files: %v", got)
			}
			fi, err := os.Stat(filepath.Join(dir, packedKey.file()))
			if err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
				t.Fatalf("%v, %v; want a file that only its owner reads", fi.Mode(), err)
			}
			stored, mapped, faults = s.load(t, PackedOptions{Dir: dir, alloc: c.alloc})
			if !stored || mapped != (c.alloc != nil) || len(faults) != 0 || s.made != len(s.blobs) {
				t.Fatalf("second: stored %v, mapped %v, %d blobs made, faults %v", stored, mapped, s.made, faults)
			}
			reversed := &packedSource{blobs: s.blobs}
			blobs := slices.Clone(s.blobs)
			slices.Reverse(blobs)
			p, err := LoadPacked(t.Context(), packedKey, blobs, PackedOptions{Dir: dir, Make: reversed.make})
			if err != nil {
				t.Fatal(err)
			}
			s.check(t, p)
			if err := p.Close(); err != nil || reversed.made != 0 {
				t.Fatalf("%v; %d blobs made again for another order", err, reversed.made)
			}
		})
	}
}

func TestPackedWithoutDirectory(t *testing.T) {
	unchanged(t)
	s := newPackedSource(100, 5000)
	for range 2 {
		if stored, mapped, faults := s.load(t, PackedOptions{}); stored || mapped || len(faults) != 0 {
			t.Fatalf("stored %v, mapped %v, faults %v", stored, mapped, faults)
		}
	}
	if s.made != 4 {
		t.Errorf("%d blobs made; want 4", s.made)
	}
	if _, err := LoadPacked(t.Context(), packedKey, s.blobs, PackedOptions{Make: s.make, alloc: noMemory}); !errors.Is(err, offheap.ErrNoMemory) {
		t.Errorf("%v; want ErrNoMemory", err)
	}
}

// Whatever a key differs in, its blobs are made anew, and the other key's file
// stays unless both have one name.
func TestPackedMiss(t *testing.T) {
	unchanged(t)
	dir := t.TempDir()
	s := newPackedSource(1000)
	s.load(t, PackedOptions{Dir: dir})
	for field, k := range map[string]PackedKey{
		"weights":        {"0123456789abcdef9999", "int4", 3, "avx2"}, // the same name
		"format":         {packedKey.Weights, "int8", 3, "avx2"},
		"format version": {packedKey.Weights, "int4", 4, "avx2"},
		"layout":         {packedKey.Weights, "int4", 3, ""},
	} {
		if err := os.WriteFile(filepath.Join(dir, k.file()), mustRead(t, filepath.Join(dir, packedKey.file())), 0o600); err != nil {
			t.Fatal(err)
		}
		other := &packedSource{blobs: s.blobs, salt: 9}
		var faults []error
		load := func() *Packed {
			p, err := LoadPacked(t.Context(), k, s.blobs, PackedOptions{Dir: dir, Make: other.make, OnFault: func(err error) { faults = append(faults, err) }})
			if err != nil {
				t.Fatal(err)
			}
			other.check(t, p)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			return p
		}
		load()
		if len(faults) != 1 || other.made != 1 {
			t.Fatalf("%s: %d blobs made, faults %v", field, other.made, faults)
		}
		if e, ok := errors.AsType[*PackedMissError](faults[0]); !ok || e.Field != field || e.Want == e.Have || e.File != k.file() {
			t.Errorf("%s: %v; want a *PackedMissError of it", field, faults[0])
		}
		if p := load(); !p.Stored || other.made != 1 || len(faults) != 1 {
			t.Errorf("%s: not found again: %d blobs made, faults %v", field, other.made, faults)
		}
		s.load(t, PackedOptions{Dir: dir}) // for the next field
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPackedArguments(t *testing.T) {
	unchanged(t)
	good := []Blob{{"a", 1}, {"b", 1}}
	for name, f := range map[string]func() (PackedKey, []Blob){
		"short fingerprint": func() (PackedKey, []Blob) { return PackedKey{"abc", "int4", 1, ""}, good },
		"path in weights":   func() (PackedKey, []Blob) { return PackedKey{"../../../../../abc", "int4", 1, ""}, good },
		"path in format":    func() (PackedKey, []Blob) { return PackedKey{packedKey.Weights, "../x", 1, ""}, good },
		"path in layout":    func() (PackedKey, []Blob) { return PackedKey{packedKey.Weights, "x", 1, "a/b"}, good },
		"no format":         func() (PackedKey, []Blob) { return PackedKey{packedKey.Weights, "", 1, ""}, good },
		"version":           func() (PackedKey, []Blob) { return PackedKey{packedKey.Weights, "x", -1, ""}, good },
		"no blobs":          func() (PackedKey, []Blob) { return packedKey, nil },
		"no name":           func() (PackedKey, []Blob) { return packedKey, []Blob{{"", 1}} },
		"long name":         func() (PackedKey, []Blob) { return packedKey, []Blob{{strings.Repeat("x", 2000), 1}} },
		"bytes for a name":  func() (PackedKey, []Blob) { return packedKey, []Blob{{"\xff", 1}} },
		"no size":           func() (PackedKey, []Blob) { return packedKey, []Blob{{"a", 0}} },
		"negative size":     func() (PackedKey, []Blob) { return packedKey, []Blob{{"a", -5}} },
		"too large":         func() (PackedKey, []Blob) { return packedKey, []Blob{{"a", 1 << 49}, {"b", 1 << 49}, {"c", 1}} },
		"overflow":          func() (PackedKey, []Blob) { return packedKey, []Blob{{"a", 1<<63 - 1}, {"b", 1<<63 - 1}} },
		"twice":             func() (PackedKey, []Blob) { return packedKey, []Blob{{"a", 1}, {"a", 1}} },
	} {
		k, blobs := f()
		dir := t.TempDir()
		if _, err := LoadPacked(t.Context(), k, blobs, PackedOptions{Dir: dir}); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if got := listing(t, dir); len(got) != 0 {
			t.Errorf("%s: left %v", name, got)
		}
	}
}

// What Make and the context say ends the load, and nothing of it stays.
func TestPackedEnds(t *testing.T) {
	unchanged(t)
	s := newPackedSource(1000, 2000, 3000)
	broken := errors.New("broken source")
	for _, alloc := range []func(int) (*offheap.Region, error){nil, noMemory} {
		for at := range s.blobs {
			for _, cancelled := range []bool{false, true} {
				dir := t.TempDir()
				ctx, cancel := context.WithCancel(t.Context())
				want := broken
				_, err := LoadPacked(ctx, packedKey, s.blobs, PackedOptions{Dir: dir, alloc: alloc, Make: func(i int, dst []byte) error {
					switch {
					case i != at:
						return s.make(i, dst)
					case cancelled && i < len(s.blobs)-1:
						cancel()
						want = context.Canceled
						return nil
					}
					return broken
				}})
				cancel()
				if !errors.Is(err, want) {
					t.Errorf("blob %d: %v; want %v", at, err, want)
				}
				if got := listing(t, dir); len(got) != 0 {
					t.Errorf("blob %d: left %v", at, got)
				}
			}
		}
	}
	dir := t.TempDir()
	s.load(t, PackedOptions{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := LoadPacked(ctx, packedKey, s.blobs, PackedOptions{Dir: dir, Make: s.make}); !errors.Is(err, context.Canceled) {
		t.Errorf("reading under an ended context: %v", err)
	}
	if stored, _, _ := s.load(t, PackedOptions{Dir: dir}); !stored {
		t.Error("an ended context cost the file")
	}
}

// Writers that run at once end with one good file and nothing else.
func TestPackedConcurrentWriters(t *testing.T) {
	unchanged(t)
	dir := t.TempDir()
	sizes := []int64{100000, 1, 70000}
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s := newPackedSource(sizes...)
			<-start
			for range 5 {
				p, err := LoadPacked(t.Context(), packedKey, s.blobs, PackedOptions{Dir: dir, Make: s.make})
				if err != nil {
					t.Error(err)
					return
				}
				for i, b := range s.blobs {
					if !bytes.Equal(p.Blob(b.Name), s.want(i)) {
						t.Errorf("%s: other bytes", b.Name)
					}
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	if got := listing(t, dir); !slices.Equal(got, []string{packedKey.file()}) {
		t.Fatalf("files: %v", got)
	}
	if stored, _, faults := newPackedSource(sizes...).load(t, PackedOptions{Dir: dir}); !stored || len(faults) != 0 {
		t.Fatalf("stored %v, faults %v", stored, faults)
	}
}
