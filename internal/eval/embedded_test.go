package main

import (
	"io/fs"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/eval/noise"
	"github.com/cofferdam-ml/cofferdam/internal/tiny"
	"github.com/cofferdam-ml/cofferdam/internal/tiny/tasks"
)

// passes counts the held-out tasks that a model of the embedded kind repairs.
func passes(t *testing.T, fsys fs.FS, list []tasks.Task, withhold bool) (n int) {
	t.Helper()
	m, err := glm.OpenFS(t.Context(), fsys, glm.Config{LatentEps: tiny.LatentEps})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: window, AllowSmallerPool: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range list {
		r, err := repair(t.Context(), m, pool, task, withhold)
		if err != nil {
			t.Fatalf("%s: %v", task.Name, err)
		}
		if r.passed {
			n++
		} else {
			t.Logf("%s: %s", task.Name, r.cause)
		}
	}
	return n
}

// The embedded model repairs what MODEL.md says, and the harness nothing: not with
// weights that were never trained, and not without the results of its tools. Some
// of the tasks are run here, all of them by the command.
func TestEmbeddedModel(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go test for every task")
	}
	list, err := tasks.Short()
	if err != nil {
		t.Fatal(err)
	}
	part, some := list[:30], list[:4]
	if n := passes(t, tiny.FS(), part, false); n < 24 {
		t.Errorf("%d of %d tasks pass, want 24 or more", n, len(part))
	} else {
		t.Logf("%d of %d tasks pass", n, len(part))
	}
	random, err := noise.FS(tiny.FS(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := passes(t, random, some, false); n != 0 {
		t.Errorf("%d of %d tasks pass with random weights", n, len(some))
	}
	if n := passes(t, tiny.FS(), some, true); n >= 1 {
		t.Errorf("%d of %d tasks pass without the results of the tools", n, len(some))
	}
}
