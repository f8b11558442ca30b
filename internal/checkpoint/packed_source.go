package checkpoint

import (
	"fmt"
	"os"
)

// Outline is [Checkpoint.Tensor] without Data and Scale: nothing of the weights is
// read, and nothing of them is checked.
func (c *Checkpoint) Outline(name string) (Tensor, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return Tensor{}, fmt.Errorf("checkpoint: tensor %q: %w", name, os.ErrClosed)
	}
	x := c.table.byName[name]
	if x == nil {
		return Tensor{}, &CheckpointError{File: c.table.layout.file, Tensor: name, Offset: -1, Want: "a tensor", Have: "absent"}
	}
	return Tensor{Name: name, DType: x.dtype, Shape: x.shape}, nil
}

// Want has a tensor's bytes read ahead from disk, and Forget takes bytes [lo, hi)
// of its data out of this process again, for whoever goes through a checkpoint that
// is larger than memory. Reading them afterwards costs time only. Both do nothing
// for a name or bytes that are not there, and after Close.
func (c *Checkpoint) Want(name string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	x := c.table.byName[name]
	if x == nil || c.closed {
		return
	}
	c.regions[x.shard].Want(int(x.begin), int(x.end))
	if s := x.scale; s != nil {
		c.regions[s.shard].Want(int(s.begin), int(s.end))
	}
}

// Forget is described at Want.
func (c *Checkpoint) Forget(name string, lo, hi int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	x := c.table.byName[name]
	if x != nil && !c.closed && lo >= 0 && int64(hi) <= x.end-x.begin {
		c.regions[x.shard].Forget(int(x.begin)+lo, int(x.begin)+hi)
	}
}
