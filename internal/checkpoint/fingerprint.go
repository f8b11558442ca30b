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
	names := slices.Sorted(maps.Keys(c.table.byName))
	// Ask for all samples before the first is read. Otherwise the disk would fetch
	// one at a time, and with each as much of what lies behind it as it does for
	// those who read in order: together most of the checkpoint.
	for _, name := range names {
		x := c.table.byName[name]
		for _, s := range samples(int(x.end - x.begin)) {
			c.regions[x.shard].Want(int(x.begin)+s[0], int(x.begin)+s[1])
		}
	}
	for _, name := range names {
		x := c.table.byName[name]
		fmt.Fprintf(h, "%q %s %v\n", name, x.dtype, x.shape)
		if err := offheap.Guard(func() { writeSample(h, c.data(x)) }); err != nil {
			return "", c.lost(x, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func writeSample(h hash.Hash, data []byte) {
	for _, s := range samples(len(data)) {
		h.Write(data[s[0]:s[1]])
	}
}

// samples returns which parts of n bytes are hashed.
func samples(n int) [3][2]int {
	if n <= 3*sample {
		return [3][2]int{{0, n}}
	}
	mid := n / 2
	return [3][2]int{{0, sample}, {mid, mid + sample}, {n - sample, n}}
}

// Bytes returns the size of all tensors together.
func (c *Checkpoint) Bytes() int64 {
	var n int64
	for _, x := range c.table.byName {
		n += x.end - x.begin
	}
	return n
}
