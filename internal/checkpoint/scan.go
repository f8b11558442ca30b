package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"golang.org/x/exp/mmap"
)

// A Listing is what a checkpoint's configuration and headers say.
type Listing struct {
	Config *Config
	Files  bool   // there are weight files
	table  *table // nil: no headers were read
}

// Scan reads the configuration and the headers of a checkpoint, and checks one
// against the other, without its weights. A directory without weight files is
// fine, a model that cannot be run too, if its layout is understood: see
// [Config.Runnable].
func Scan(dir string) (*Listing, error) {
	fsys := os.DirFS(dir)
	cfg, err := readConfig(fsys)
	if err != nil {
		return nil, err
	}
	l := &Listing{Config: cfg, Files: exists(fsys, singleFile) || exists(fsys, indexFile)}
	if !l.Files || !cfg.layoutKnown() {
		return l, nil
	}
	lay, err := readLayout(fsys)
	if err != nil {
		return nil, err
	}
	l.table = newTable(lay)
	err = l.table.read(func(name string) ([]byte, int64, error) { return readHeader(fsys, dir, name) })
	if err != nil {
		return nil, err
	}
	return l, l.table.check(cfg)
}

// layoutKnown reports whether the tensors can be held against the configuration:
// yes for what runs and for glm5_next.
func (c *Config) layoutKnown() bool {
	return c.refusal == nil || c.Family == GLM5Next && c.refusal.Field == "model_type"
}

// readHeader reads the header of a weight file into memory.
func readHeader(fsys fs.FS, dir, name string) (header []byte, size int64, err error) {
	f, _, err := openRegular(fsys, name)
	if err != nil {
		return nil, 0, err
	}
	if err := f.Close(); err != nil {
		return nil, 0, err
	}
	r, err := mmap.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, 0, &CheckpointError{File: name, Offset: -1, Want: "a file that can be mapped", Have: "an error", Err: err}
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	size = int64(r.Len())
	prefix := make([]byte, min(size, headerPrefix))
	if len(prefix) > 0 {
		if _, err := r.ReadAt(prefix, 0); err != nil {
			return nil, 0, fmt.Errorf("checkpoint: %s: %w", name, err)
		}
	}
	n, err := headerLen(name, prefix, size)
	if err != nil {
		return nil, 0, err
	}
	header = make([]byte, n)
	if _, err := r.ReadAt(header, headerPrefix); err != nil {
		return nil, 0, fmt.Errorf("checkpoint: %s: %w", name, err)
	}
	return header, size, nil
}

// Checked reports whether headers were read and agree with the configuration. It
// is false without weight files, and for a model whose refusal leaves open how
// its tensors are laid out.
func (l *Listing) Checked() bool { return l.table != nil }

// Tensors yields the tensors of the files if they were checked, else the
// inventory of the layout that the configuration declares.
func (l *Listing) Tensors() iter.Seq[Entry] {
	if l.table == nil {
		return Inventory(l.Config, l.Config.Layout())
	}
	return func(yield func(Entry) bool) {
		for _, all := range []iter.Seq[weight]{weights(l.Config), extras(l.Config)} {
			for w := range all {
				x := l.table.find(w.name)
				if x == nil {
					continue
				}
				e := Entry{Name: x.name, Shape: x.shape, DType: x.dtype, Kind: w.kind, Layer: w.layer, Routed: w.routed}
				if !yield(e) {
					return
				}
				if s := x.scale; s != nil {
					e.Name, e.Shape, e.DType, e.Scale = s.name, s.shape, s.dtype, true
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}
