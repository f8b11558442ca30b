package main

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// rival is the npm package that is measured beside ours: llama.cpp v0.5.0, built for
// several instruction sets.
const rival = "@node-llama-cpp/linux-x64@3.22.1"

//go:embed c/*.c
var harnesses embed.FS

// workshop is the directory, outside the repository, that holds the rival, the
// harnesses and the model files.
type workshop struct{ dir string }

func (w workshop) libraries() string {
	return filepath.Join(w.dir, "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")
}

func (w workshop) path(name string) string { return filepath.Join(w.dir, name) }

// setup installs the rival, unless it is there, and compiles the harnesses.
func (w workshop) setup() error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(w.libraries()); err != nil {
		// A package.json of its own keeps npm from installing further up.
		if err := os.WriteFile(w.path("package.json"), []byte("{\"private\": true}\n"), 0o644); err != nil {
			return err
		}
		if err := w.command("npm", "i", "-E", "--ignore-scripts", rival); err != nil {
			return err
		}
	}
	for _, name := range []string{"products", "model"} {
		text, err := harnesses.ReadFile("c/" + name + ".c")
		if err != nil {
			return err
		}
		if err := os.WriteFile(w.path(name+".c"), text, 0o644); err != nil {
			return err
		}
		// The parameter structs of the library are passed as a larger one.
		if err := w.command("gcc", "-O2", "-fno-strict-aliasing", name+".c", "-o", name, "-ldl", "-lm"); err != nil {
			return err
		}
	}
	return nil
}

func (w workshop) command(name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir = w.dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
