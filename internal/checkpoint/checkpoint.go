package checkpoint

import (
	"errors"
	"io/fs"
)

// A Checkpoint is an opened model directory: a configuration and views of its
// tensors. Its methods may be called from several goroutines.
type Checkpoint struct {
	Config Config
}

// Open reads the checkpoint in a directory. Weights are memory-mapped, not read.
func Open(dir string) (*Checkpoint, error) { return nil, errors.ErrUnsupported }

// OpenFS reads the checkpoint in a file system.
func OpenFS(fsys fs.FS) (*Checkpoint, error) { return nil, errors.ErrUnsupported }

// Tensor returns the tensor of that name, as the checkpoint spells it.
func (c *Checkpoint) Tensor(name string) (Tensor, error) { return Tensor{}, errors.ErrUnsupported }

// Has reports whether the checkpoint stores a tensor of that name.
func (c *Checkpoint) Has(name string) bool { return false }

// Close unmaps the weights.
func (c *Checkpoint) Close() error { return nil }
