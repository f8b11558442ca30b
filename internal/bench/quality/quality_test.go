package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/tiny"
)

var goldens = filepath.Join("..", "..", "tiny", "goldens")

// The embedded model keeps the bounds of both formats on all held-out tokens.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("computes 60,000 rows")
	}
	var out strings.Builder
	ok, err := run(t.Context(), &out, goldens, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Errorf("a bound is missed:\n%s", &out)
	} else {
		t.Logf("\n%s", &out)
	}
}

// On two windows int8 is close to stored weights in both respects, and not the same.
func TestMeasure(t *testing.T) {
	held, err := readHeldOut(goldens)
	if err != nil {
		t.Fatal(err)
	}
	held.ids = held.ids[:2*held.Window]
	stored, err := measure(t.Context(), tiny.FS(), held, cpu.AsStored, 2)
	if err != nil {
		t.Fatal(err)
	}
	eight, err := measure(t.Context(), tiny.FS(), held, cpu.Int8, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * (held.Window - 1); len(stored.top) != want || len(eight.top) != want {
		t.Fatalf("%d and %d predictions, want %d", len(stored.top), len(eight.top), want)
	}
	r, sure := eight.ratio(stored)
	if r == 1 || r < 0.98 || r > 1.02 || sure <= 0 || sure > 0.02 {
		t.Errorf("perplexity ratio %g +- %g", r, sure)
	}
	if want := eight.perplexity() / stored.perplexity(); math.Abs(r/want-1) > 1e-12 {
		t.Errorf("perplexity ratio %g, want %g", r, want)
	}
	if n, all := eight.agrees(stored), len(stored.top); n == all || n < all*8/10 {
		t.Errorf("%d of %d agree", n, all)
	}
	if n := stored.agrees(stored); n != len(stored.top) {
		t.Errorf("%d of %d agree with themselves", n, len(stored.top))
	}
}

// Files that are not held-out tokens are refused.
func TestReadHeldOut(t *testing.T) {
	for name, files := range map[string][2]string{
		"no window":      {`{"latent_eps":1e-6}`, "aabb"},
		"not JSON":       {`{`, "aabb"},
		"too few tokens": {`{"window":3}`, "aabb"},
	} {
		dir := t.TempDir()
		for i, file := range []string{"goldens.json", "heldout.u16"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(files[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readHeldOut(dir); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := readHeldOut(t.TempDir()); err == nil {
		t.Error("an empty directory: no error")
	}
}
