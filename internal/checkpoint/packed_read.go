package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

const (
	// packedPiece is read at once and then checksummed: it is still in the
	// processor's cache.
	packedPiece = 1 << 20
	// packedSpan is about what a reader takes at once, in one run of the disk.
	packedSpan = 32 << 20
	// packedReaders is enough for any disk; a checksum runs at some 10 GB/s.
	packedReaders = 8
)

// read opens the file at path and takes its blobs into memory or, where that is
// too small, maps it. h says what must be there.
func (h *packedHeader) read(ctx context.Context, path string, o *PackedOptions) (*Packed, error) {
	f, have, err := openPacked(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := h.hold(filepath.Base(path), have); err != nil {
		return nil, err
	}
	p := &Packed{Stored: true, base: have.data, byName: have.byName}
	r := packedReader{f: f, file: filepath.Base(path), packedHeader: have}
	p.region, err = o.alloc(int(have.size - have.data))
	if err == nil {
		r.mem = p.region.Bytes()
	}
	if err := r.run(ctx, o); err != nil {
		if r.mem != nil {
			err = errors.Join(err, p.region.Close())
		}
		return nil, err
	}
	if r.mem == nil {
		p.Mapped, p.base = true, 0
		if p.region, err = offheap.MapFile(f, have.size); err != nil {
			return nil, &CheckpointError{File: r.file, Offset: -1, Want: "a file that can be mapped", Have: "an error", Err: err}
		}
	}
	return p, nil
}

// openPacked opens a file and reads its header. An absent file is a miss.
func openPacked(path string) (*os.File, *packedHeader, error) {
	file := filepath.Base(path)
	opened, size, err := openRegular(os.DirFS(filepath.Dir(path)), file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &PackedMissError{File: file, Field: "file", Want: "one", Have: "absent"}
	}
	if err != nil {
		return nil, nil, err
	}
	f := opened.(*os.File)
	h, err := readPackedHeader(f, file, size)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, h, nil
}

func readPackedHeader(f io.ReaderAt, file string, size int64) (*packedHeader, error) {
	fixed := make([]byte, min(size, packedFixed))
	if err := readPacked(f, fixed, 0, file, ""); err != nil {
		return nil, err
	}
	n, err := packedHeaderLen(file, fixed, size)
	if err != nil {
		return nil, err
	}
	header := make([]byte, n)
	if err := readPacked(f, header, 0, file, ""); err != nil {
		return nil, err
	}
	return parsePacked(file, header, size)
}

// readPacked fills dst from an offset.
func readPacked(f io.ReaderAt, dst []byte, offset int64, file, blob string) error {
	n, err := f.ReadAt(dst, offset)
	if n == len(dst) {
		return nil
	}
	e := &CheckpointError{File: file, Tensor: blob, Offset: offset + int64(n), Want: fmt.Sprintf("%d more bytes", len(dst)-n), Have: "the end of the file"}
	if !errors.Is(err, io.EOF) {
		e.Have, e.Err = "an error", err
	}
	return e
}

// packedReader reads blobs, each against its checksum, with several goroutines: a
// disk is fast only if it is asked for several things at once, and a copy out of
// the system's memory is bound by one core.
type packedReader struct {
	*packedHeader
	f    *os.File
	file string
	mem  []byte // what to read into, from the first blob on; nil: only verify

	mu   sync.Mutex
	next int // blob that nobody has taken
}

// take returns the blobs [lo, hi) for a reader, about packedSpan bytes of them,
// and has what comes next read ahead.
func (r *packedReader) take() (lo, hi int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lo, hi = r.next, r.next
	for hi < len(r.blobs) && r.end(hi-1)-r.end(lo-1) < packedSpan {
		hi++
	}
	r.next = hi
	if hi < len(r.blobs) {
		offheap.WantFile(r.f, r.end(hi-1), min(packedSpan, r.size-r.end(hi-1)))
	}
	return lo, hi
}

// end returns where blob i ends.
func (r *packedReader) end(i int) int64 {
	if i < 0 {
		return 0
	}
	return r.blobs[i].offset + r.blobs[i].Size
}

// run reads everything. Of several faults it returns that of the first blob.
func (r *packedReader) run(ctx context.Context, o *PackedOptions) error {
	type result struct {
		lo, hi int
		err    error
	}
	readers := min(packedReaders, runtime.GOMAXPROCS(0))
	results := make(chan result)
	var wg sync.WaitGroup
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	for range readers {
		wg.Go(func() {
			var scratch []byte
			if r.mem == nil {
				scratch = make([]byte, packedPiece)
			}
			for stop.Err() == nil {
				lo, hi := r.take()
				if lo == hi {
					return
				}
				at, err := r.span(stop, lo, hi, scratch)
				results <- result{at, hi, err}
			}
		})
	}
	go func() { wg.Wait(); close(results) }()
	var done, total = int64(0), r.size - r.data
	var first result
	for x := range results {
		if x.err == nil {
			if done += r.end(x.hi-1) - max(r.end(x.lo-1), r.data); done < total {
				o.progress(done, total)
			}
			continue
		}
		cancel()
		if !errors.Is(x.err, context.Canceled) && (first.err == nil || x.lo < first.lo) {
			first = x
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if first.err == nil {
		o.progress(total, total)
	}
	return first.err
}

// span reads the blobs [lo, hi) and returns lo, or the blob that failed.
func (r *packedReader) span(ctx context.Context, lo, hi int, scratch []byte) (int, error) {
	for i := lo; i < hi; i++ {
		if err := r.blob(ctx, i, scratch); err != nil {
			return i, err
		}
	}
	from := r.end(lo - 1)
	offheap.ForgetFile(r.f, from, r.end(hi-1)-from)
	return lo, nil
}

func (r *packedReader) blob(ctx context.Context, i int, scratch []byte) error {
	b := &r.blobs[i]
	sum := uint32(0)
	for at := int64(0); at < b.Size; at += packedPiece {
		if err := ctx.Err(); err != nil {
			return err
		}
		if at > 0 && at%packedSpan == 0 { // nobody else cares for a blob of this size
			offheap.ForgetFile(r.f, b.offset+at-packedSpan, packedSpan)
			offheap.WantFile(r.f, b.offset+at, min(2*packedSpan, b.Size-at))
		}
		n := min(packedPiece, b.Size-at)
		dst := scratch
		if r.mem != nil {
			dst = r.mem[b.offset-r.data+at:]
		}
		if err := readPacked(r.f, dst[:n], b.offset+at, r.file, b.Name); err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, dst[:n])
	}
	if sum != b.sum {
		return &CheckpointError{
			File: r.file, Tensor: b.Name, Offset: b.offset, Want: fmt.Sprintf("%d bytes with checksum %#08x", b.Size, b.sum), Have: fmt.Sprintf("%#08x", sum),
		}
	}
	return nil
}
