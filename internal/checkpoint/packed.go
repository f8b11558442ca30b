package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// Weights that are computed with in another format than they are stored in are
// made once and kept in a file: reading it is as fast as the disk, making them is
// not, and needs all of the checkpoint's bytes. What a blob holds is known to its
// maker only.
//
// packed_header.go has the layout of the file, packed_write.go how it comes to be,
// packed_read.go how its bytes are held against their checksums before anybody
// sees them.

// ErrNoMemory reports blobs that do not fit into memory and have no file to be mapped
// from. The detail is a *MemoryError.
var ErrNoMemory = offheap.ErrNoMemory

// MemoryError says how much memory was needed and how much there is.
type MemoryError = offheap.MemoryError

// PackedKey says what blobs were made of, and as what. Blobs are never read under
// another key than they were written with.
type PackedKey struct {
	Weights string // Checkpoint.Fingerprint
	Format  string // of lower-case letters and digits: "int4"
	Version int    // of the format
	Layout  string // likewise: of the instruction set; empty if all read the same
}

// file returns the name of the file of a key. The start of a fingerprint tells the
// checkpoints of one machine apart; the header has all of it.
func (k PackedKey) file() string {
	name := fmt.Sprintf("%.16s-%s-%d", k.Weights, k.Format, k.Version)
	if k.Layout != "" {
		name += "-" + k.Layout
	}
	return name + packedSuffix
}

const packedSuffix = ".packed"

// check refuses what would not make a file name.
func (k PackedKey) check() error {
	plain := func(s string) bool {
		for _, r := range s {
			if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
				return false
			}
		}
		return len(s) < maxPackedName
	}
	if len(k.Weights) < 16 || k.Format == "" || !plain(k.Weights+k.Format+k.Layout) || k.Version < 0 || k.Version > 1<<31-1 {
		return fmt.Errorf("checkpoint: packed weights: key %+v", k)
	}
	return nil
}

// A Blob is one weight in packed form: its name and how many bytes it has.
type Blob struct {
	Name string
	Size int64
}

// PackedOptions says where blobs come from.
type PackedOptions struct {
	// Dir is the directory of the file, made if it is absent. Empty: no file.
	Dir string
	// Make writes blob i to dst, which has its size and is aligned to 64 bytes.
	// It is called in order, from LoadPacked's goroutine. Its error ends the load.
	Make func(i int, dst []byte) error
	// OnProgress, if set, is told how many bytes of how many are done, from
	// LoadPacked's goroutine. It starts again when a file turns out to be broken.
	OnProgress func(done, total int64)
	// OnFault, if set, is told what went wrong without ending the load: a
	// *PackedMissError or *CheckpointError of a file that is made anew, a
	// *PackedWriteError of one that could not be kept.
	OnFault func(error)

	// Tests stand in for the system.
	alloc func(n int) (*offheap.Region, error)
	fault func(op string) error
	flush int64 // packedFlush
}

func (o *PackedOptions) report(err error) {
	if o.OnFault != nil {
		o.OnFault(err)
	}
}

func (o *PackedOptions) progress(done, total int64) {
	if o.OnProgress != nil {
		o.OnProgress(done, total)
	}
}

// Packed holds blobs in memory outside the Go heap, or mapped from their file.
type Packed struct {
	// Stored: the blobs come from a file and were not made. Mapped: they are
	// read where they lie in it.
	Stored, Mapped bool

	region *offheap.Region
	base   int64 // byte of the file that the region begins with
	byName map[string]*packedBlob
}

// Blob returns a blob by name, nil if there is none and after Close. It is
// read-only, aligned to 64 bytes, and dead once Close is called.
func (p *Packed) Blob(name string) []byte {
	b, mem := p.byName[name], p.region.Bytes()
	if b == nil || mem == nil {
		return nil
	}
	lo, hi := b.offset-p.base, b.offset-p.base+b.Size
	return mem[lo:hi:hi]
}

// Close gives the memory back; nobody may be reading. Later calls return nil.
func (p *Packed) Close() error { return p.region.Close() }

// LoadPacked returns the blobs of a key: from the file in o.Dir if it has them, and
// otherwise made, and kept there for the next time.
//
// They are put into memory in large pages. If there is too little of it, they are
// mapped from the file; without a directory that is an error, ErrNoMemory. A file is
// used only after every byte of every blob was held against its checksum, in memory
// or, before mapping, on disk.
//
// A file that is not usable is replaced, and that it cannot be written costs the
// next load its time and this one nothing, unless the blobs have nowhere else to
// be: then it is the error, a *PackedWriteError. Blobs twice or without a name are
// an error too, and so is the end of ctx.
func LoadPacked(ctx context.Context, key PackedKey, blobs []Blob, o PackedOptions) (*Packed, error) {
	if err := key.check(); err != nil {
		return nil, err
	}
	if o.alloc == nil {
		o.alloc = offheap.AllocHuge
	}
	if o.flush == 0 {
		o.flush = packedFlush
	}
	h, err := newPackedHeader(key, blobs)
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return h.make(ctx, &o)
	}
	path := filepath.Join(o.Dir, key.file())
	p, err := h.read(ctx, path, &o)
	if err == nil || ctx.Err() != nil {
		return p, err
	}
	miss, missed := errors.AsType[*PackedMissError](err)
	switch {
	case !missed:
		o.report(err)
		_ = os.Remove(path) // it may be what fills the disk
	case miss.Field != "file":
		o.report(err)
	}
	return h.make(ctx, &o)
}

// make has the blobs made, and written if there is a directory.
func (h *packedHeader) make(ctx context.Context, o *PackedOptions) (*Packed, error) {
	mem, err := o.alloc(int(h.size - h.data))
	if err != nil && o.Dir == "" {
		return nil, fmt.Errorf("checkpoint: packed weights: %w", err)
	}
	var w *packedWriter
	if o.Dir != "" {
		var failed error
		if w, failed = h.create(o); failed != nil {
			if err != nil {
				return nil, failed
			}
			o.report(failed)
		}
	}
	if err != nil {
		return h.makeOnDisk(ctx, w, o)
	}
	p := &Packed{region: mem, base: h.data, byName: h.byName}
	if err := h.makeInMemory(ctx, p, w, o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// makeInMemory makes every blob where it stays, and writes it while the next ones
// are made.
func (h *packedHeader) makeInMemory(ctx context.Context, p *Packed, w *packedWriter, o *PackedOptions) error {
	made := make(chan int, len(h.blobs))
	written := make(chan error, 1)
	go func() {
		var err error
		for i := range made {
			if w != nil && err == nil {
				err = w.put(i, p.Blob(h.blobs[i].Name))
			}
		}
		written <- err
	}()
	var done int64
	var err error
	total := h.size - h.data
	for i := range h.blobs {
		if err = ctx.Err(); err != nil {
			break
		}
		if err = o.Make(i, p.Blob(h.blobs[i].Name)); err != nil {
			break
		}
		made <- i
		if done = h.blobs[i].offset + h.blobs[i].Size - h.data; done < total {
			o.progress(done, total)
		}
	}
	close(made)
	failed := <-written
	if w != nil {
		if err != nil {
			w.abandon()
			return err
		}
		if failed == nil {
			failed = w.commit()
		} else {
			w.abandon()
		}
		if failed != nil {
			o.report(failed)
		}
	}
	if err == nil {
		o.progress(total, total)
	}
	return err
}

// makeOnDisk makes every blob in the same piece of memory and writes it from
// there. What was written is then read like any file, so that a disk that did not
// keep it is found out.
func (h *packedHeader) makeOnDisk(ctx context.Context, w *packedWriter, o *PackedOptions) (*Packed, error) {
	err := h.makeThrough(ctx, w, o)
	if err != nil {
		w.abandon()
		return nil, err
	}
	if err := w.commit(); err != nil {
		return nil, err
	}
	second := *o
	second.OnProgress = func(done, total int64) { o.progress(total/2+(done+1)/2, total) }
	p, err := h.read(ctx, w.path, &second)
	if err == nil {
		p.Stored = false
	}
	return p, err
}

func (h *packedHeader) makeThrough(ctx context.Context, w *packedWriter, o *PackedOptions) (err error) {
	var most int64
	for _, b := range h.blobs {
		most = max(most, b.Size)
	}
	mem, err := offheap.Alloc(int(most))
	if err != nil {
		return fmt.Errorf("checkpoint: packed weights: %w", err)
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	for i, b := range h.blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		dst := mem.Bytes()[:b.Size:b.Size]
		if err := o.Make(i, dst); err != nil {
			return err
		}
		if err := w.put(i, dst); err != nil {
			return err
		}
		o.progress((b.offset+b.Size-h.data)/2, h.size-h.data)
	}
	return nil
}
