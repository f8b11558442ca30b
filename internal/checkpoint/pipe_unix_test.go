//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A named pipe in place of a file is refused, not waited for.
func TestNamedPipe(t *testing.T) {
	for _, name := range []string{configFile, generationFile, singleFile} {
		dir := writeFiles(t, baseline(t).files(t))
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && name != generationFile {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Skip(err)
		}
		done := make(chan error, 2)
		go func() { _, err := Open(dir); done <- err }()
		go func() { _, err := Scan(dir); done <- err }()
		for range 2 {
			select {
			case err := <-done:
				var e *CheckpointError
				if !errors.As(err, &e) || e.File != name {
					t.Errorf("%s: %v; want a *CheckpointError of it", name, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: still waiting for a pipe", name)
			}
		}
	}
}
