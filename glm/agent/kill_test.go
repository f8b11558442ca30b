package agent

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// transcriptOf makes the test binary a program that plays the saga with a
// transcript and is killed while it does.
const transcriptOf = "COFFERDAM_TEST_TRANSCRIPT"

func TestMain(m *testing.M) {
	name := os.Getenv(transcriptOf)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := playSlowly(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func playSlowly(name string) error {
	files, err := fixtureFS()
	if err != nil {
		return err
	}
	m, err := glm.OpenFS(context.Background(), files, glm.Config{Template: "GLM-5.3", Threads: 1})
	if err != nil {
		return err
	}
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: fixtureContext, Context: fixtureContext})
	if err != nil {
		return err
	}
	a, err := New(m, pool, Config{Tools: sagaTools(), Transcript: name})
	if err != nil {
		return err
	}
	s := &script{model: m}
	a.generate = func(ctx context.Context, r glm.Request) iter.Seq2[glm.Event, error] {
		return func(yield func(glm.Event, error) bool) {
			for ev, err := range s.generate(ctx, r) {
				time.Sleep(time.Millisecond)
				if !yield(ev, err) {
					return
				}
			}
		}
	}
	return play(a, s)
}

// A process that is killed again and again, and started again, comes to the end
// of the same conversation.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, pool := openFixture(t, glm.PoolConfig{})
	open := func(name string) *Agent {
		a, err := New(m, pool, Config{Tools: sagaTools(), Transcript: name})
		if err != nil {
			t.Fatal(err)
		}
		s := &script{model: m}
		a.generate = s.generate
		if err := play(a, s); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	want, err := open(filepath.Join(t.TempDir(), "whole")).Prompt()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "killed")
	kills := 0
	for pause := 40 * time.Millisecond; ; pause += 5 * time.Millisecond {
		c := exec.Command(binary)
		c.Env = append(os.Environ(), transcriptOf+"="+name)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(pause, func() { c.Process.Kill() })
		err := c.Wait()
		timer.Stop()
		if err == nil {
			break // it came to the end
		}
		if c.ProcessState.ExitCode() == 3 {
			t.Fatalf("after %d kills it does not start: %v", kills, err)
		}
		kills++
	}
	have, err := open(name).Prompt()
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("after %d kills the conversation is another, %v", kills, err)
	}
	t.Logf("killed %d times", kills)
}
