package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// A Checkpoint is an opened model directory: a configuration and views of its
// tensors. Its methods may be called from several goroutines.
type Checkpoint struct {
	Config Config

	mu      sync.RWMutex
	closed  bool
	table   *table
	regions []*offheap.Region // one per shard
}

// Open reads the checkpoint in a directory. Weights are memory-mapped read-only;
// no file stays open.
//
// Everything is checked that can be checked without reading weights: the
// configuration, the headers, and that the files hold exactly the tensors that
// the configuration asks for, in shape and type. Values are not checked here,
// see [Checkpoint.Tensor].
//
// Beyond those tensors a checkpoint may hold: indexers on layers that share
// another layer's selection, copies of the embedding and head in an MTP layer,
// and rotary inverse frequencies. MTP layers may be absent, each as a whole.
//
// A model that cannot be run is an *UnsupportedError, broken files are a
// *CheckpointError.
func Open(dir string) (*Checkpoint, error) { return OpenFS(os.DirFS(dir)) }

// OpenFS reads the checkpoint in a file system, like [Open]. Files that are not
// files of the operating system, such as embedded or compressed ones, are copied
// into memory outside the Go heap.
func OpenFS(fsys fs.FS) (*Checkpoint, error) {
	cfg, err := readConfig(fsys)
	if err != nil {
		return nil, err
	}
	if err := cfg.Runnable(); err != nil {
		return nil, err
	}
	l, err := readLayout(fsys)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Config: *cfg, table: newTable(l)}
	if err := c.load(fsys); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Checkpoint) load(fsys fs.FS) error {
	err := c.table.read(func(name string) ([]byte, int64, error) {
		r, err := mapShard(fsys, name)
		if err != nil {
			return nil, 0, err
		}
		c.regions = append(c.regions, r)
		b := r.Bytes()
		n, err := headerLen(name, b[:min(len(b), headerPrefix)], int64(len(b)))
		if err != nil {
			return nil, 0, err
		}
		return b[headerPrefix : headerPrefix+n], int64(len(b)), nil
	})
	if err != nil {
		return err
	}
	return c.table.check(&c.Config)
}

// readConfig reads config.json and, if it is there, generation_config.json.
func readConfig(fsys fs.FS) (*Config, error) {
	data, err := readSmall(fsys, configFile, maxConfigBytes)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(data)
	if err != nil {
		return nil, err
	}
	if !exists(fsys, generationFile) {
		return c, nil
	}
	if data, err = readSmall(fsys, generationFile, maxConfigBytes); err != nil {
		return nil, err
	}
	return c, c.ParseGeneration(data)
}

// Tensor returns the tensor of that name, as the checkpoint spells it. The scales
// of an F8 tensor are checked on every call: see [CheckpointError] and the
// package comment. An absent tensor is a *CheckpointError; after Close the error
// is os.ErrClosed.
func (c *Checkpoint) Tensor(name string) (Tensor, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return Tensor{}, fmt.Errorf("checkpoint: tensor %q: %w", name, os.ErrClosed)
	}
	x := c.table.byName[name]
	if x == nil {
		return Tensor{}, &CheckpointError{File: c.table.layout.file, Tensor: name, Offset: -1, Want: "a tensor", Have: "absent"}
	}
	t := Tensor{Name: name, DType: x.dtype, Shape: x.shape, Data: c.data(x)}
	if s := x.scale; s != nil {
		t.Scale = Scale{Kind: x.kind, DType: s.dtype, Shape: s.shape, Data: c.data(s)}
		var i int
		var want, have string
		if err := offheap.Guard(func() { i, want, have = badScale(t) }); err != nil {
			return Tensor{}, c.lost(s, err)
		}
		if i >= 0 {
			return Tensor{}, &CheckpointError{
				File: c.table.layout.shards[s.shard], Tensor: s.name, Offset: s.begin + int64(i*s.dtype.Size()), Want: want, Have: have,
			}
		}
	}
	return t, nil
}

// lost is the error of a tensor whose bytes have gone from under their mapping.
func (c *Checkpoint) lost(x *stored, err error) error {
	return &CheckpointError{File: c.table.layout.shards[x.shard], Tensor: x.name, Offset: x.begin, Want: "the bytes that were mapped", Have: "a truncated file", Err: err}
}

func (c *Checkpoint) data(x *stored) []byte {
	return c.regions[x.shard].Bytes()[x.begin:x.end:x.end]
}

// Close unmaps the weights. Every slice of a Tensor is dead afterwards: nobody
// may be reading. Later calls return nil.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for _, r := range c.regions {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
