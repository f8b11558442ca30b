package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"os"
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// sample is how many bytes of each end and of the middle of a tensor are hashed.
const sample = 256

// Fingerprint identifies the weights: SHA-256 over every tensor's name, type,
// shape and a few hundred of its bytes, in order of names. Two checkpoints of one
// model differ in it; it is no proof against somebody who edits single values.
func (c *Checkpoint) Fingerprint() (string, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return "", fmt.Errorf("checkpoint: fingerprint: %w", os.ErrClosed)
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c.table.byName)) {
		x := c.table.byName[name]
		fmt.Fprintf(h, "%q %s %v\n", name, x.dtype, x.shape)
		if err := offheap.Guard(func() { writeSample(h, c.data(x)) }); err != nil {
			return "", c.lost(x, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func writeSample(h hash.Hash, data []byte) {
	if len(data) <= 3*sample {
		h.Write(data)
		return
	}
	mid := len(data) / 2
	h.Write(data[:sample])
	h.Write(data[mid : mid+sample])
	h.Write(data[len(data)-sample:])
}

// Bytes returns the size of all tensors together.
func (c *Checkpoint) Bytes() int64 {
	var n int64
	for _, x := range c.table.byName {
		n += x.end - x.begin
	}
	return n
}
