//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// A file truncated under its mapping is an error of what reads it next.
func TestTruncatedWhileMapped(t *testing.T) {
	dir := writeFiles(t, newFixture(t, tinyDSA(), LayoutFP8).files(t))
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Fingerprint(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 0); err != nil {
		t.Fatal(err)
	}
	const name = "model.layers.0.self_attn.o_proj.weight"
	_, tensor := c.Tensor(name)
	_, print := c.Fingerprint()
	for _, err := range []error{tensor, print} {
		var e *CheckpointError
		if !errors.As(err, &e) || !errors.Is(err, offheap.ErrLost) || e.File != "model.safetensors" || e.Tensor == "" {
			t.Errorf("%v; want a *CheckpointError that wraps ErrLost", err)
		}
	}
}
