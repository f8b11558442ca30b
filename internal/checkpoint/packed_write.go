package checkpoint

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// A file comes to be under another name in the same directory and takes its own
// only when all of it is on disk. So there is no moment at which the name stands
// for half a file, whoever is killed when, and of two processes that write at once
// one replaces the other's file by the same. Files are readable by their owner
// only: weights may be under a licence that the checkpoint's own modes express.

const (
	// packedFlush is written before it is forced to disk. Forcing it only at the
	// end would fill memory with it, and have the end wait.
	packedFlush = 256 << 20
	// packedStale is the age at which an unfinished file is taken for that of a
	// writer who died. A living one writes every few seconds.
	packedStale = time.Hour

	packedTemp = packedSuffix + ".tmp"
)

// PackedWriteError says that a file could not be kept, and at which step.
type PackedWriteError struct {
	File string // its name in the directory
	Op   string // "make directory", "create", "write", "flush", "sync", "close", "rename", "sync directory"
	Err  error  // the system's
}

func (e *PackedWriteError) Error() string {
	return fmt.Sprintf("packed weights: %s: %s: %v", e.File, e.Op, e.Err)
}

// Unwrap returns the system's error.
func (e *PackedWriteError) Unwrap() error { return e.Err }

// packedWriter is a file on its way.
type packedWriter struct {
	h    *packedHeader
	path string
	f    *os.File
	o    *PackedOptions

	written, flushed int64      // blobs are put in order
	flush            chan int64 // ends of parts to force to disk
	flushing         chan error // what came of all of them
}

// create starts a file.
func (h *packedHeader) create(o *PackedOptions) (*packedWriter, error) {
	w := &packedWriter{h: h, path: filepath.Join(o.Dir, h.key.file()), o: o}
	if err := w.do("make directory", func() error { return os.MkdirAll(o.Dir, 0o700) }); err != nil {
		return nil, err
	}
	removeStale(o.Dir)
	err := w.do("create", func() (err error) {
		w.f, err = os.CreateTemp(o.Dir, strings.TrimSuffix(h.key.file(), packedSuffix)+packedTemp)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.flush, w.flushing = make(chan int64), make(chan error, 1)
	go w.flushLoop()
	return w, nil
}

// do runs one step.
func (w *packedWriter) do(op string, f func() error) error {
	var err error
	if w.o.fault != nil {
		err = w.o.fault(op)
	}
	if err == nil {
		err = f()
	}
	if err != nil {
		return &PackedWriteError{File: w.h.key.file(), Op: op, Err: err}
	}
	return nil
}

// removeStale deletes what dead writers left.
func removeStale(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err == nil && strings.Contains(e.Name(), packedTemp) && fi.Mode().IsRegular() && time.Since(fi.ModTime()) > packedStale {
			_ = os.Remove(filepath.Join(dir, e.Name())) // or the next time
		}
	}
}

// flushLoop forces parts to disk beside the writing, one at a time, and drops
// them from memory. Its first error is its last deed.
func (w *packedWriter) flushLoop() {
	var err error
	at := int64(0)
	for end := range w.flush {
		if err != nil {
			continue
		}
		if err = w.do("flush", w.f.Sync); err == nil {
			offheap.ForgetFile(w.f, at, end-at)
			at = end
		}
	}
	w.flushing <- err
}

// put writes blob i.
func (w *packedWriter) put(i int, data []byte) error {
	b := &w.h.blobs[i]
	for at := 0; at < len(data); at += packedPiece {
		piece := data[at:min(at+packedPiece, len(data))]
		b.sum = crc32.Update(b.sum, castagnoli, piece)
		err := w.do("write", func() error {
			_, err := w.f.WriteAt(piece, b.offset+int64(at))
			return err
		})
		if err != nil {
			return err
		}
		w.written = b.offset + int64(at+len(piece))
		if w.written-w.flushed >= w.o.flush {
			w.flush <- w.written
			w.flushed = w.written
		}
	}
	return nil
}

// commit writes the header and gives the file its name.
func (w *packedWriter) commit() error {
	steps := []struct {
		op string
		do func() error
	}{
		{"write", func() error {
			_, err := w.f.WriteAt(w.h.encode(), 0)
			return err
		}},
		{"sync", w.f.Sync},
		{"close", func() error {
			offheap.ForgetFile(w.f, 0, w.h.size)
			return w.f.Close()
		}},
		{"rename", func() error { return os.Rename(w.f.Name(), w.path) }},
		{"sync directory", func() error { return syncDirectory(w.o.Dir) }},
	}
	close(w.flush)
	err := <-w.flushing
	w.flush = nil
	for _, s := range steps {
		if err == nil {
			err = w.do(s.op, s.do)
		}
	}
	if err != nil {
		w.abandon()
	}
	return err
}

// abandon removes an unfinished file.
func (w *packedWriter) abandon() {
	if w.flush != nil {
		close(w.flush)
		<-w.flushing
		w.flush = nil
	}
	_ = w.f.Close() // perhaps again
	_ = os.Remove(w.f.Name())
}

// syncDirectory forces names to disk. Windows has no such thing to ask for.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	return nil
}
