package tasks

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, name string) []Task {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every task can be laid out as one flat package with a test and a module file,
// and the sets have the mix that MODEL.md states.
func TestSets(t *testing.T) {
	short, err := Short()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for set, list := range map[string][]Task{"short": short, "test": read(t, "test.json"), "release": read(t, "release.json")} {
		if len(list) != 100 {
			t.Errorf("%s: %d tasks, want 100", set, len(list))
		}
		kinds, two := map[string]bool{}, 0
		for _, task := range list {
			tests, sources := 0, 0
			for name := range task.Files {
				switch {
				case name != path.Base(name):
					t.Errorf("%s: %s is not in one folder", task.Name, name)
				case strings.HasSuffix(name, "_test.go"):
					tests++
				case strings.HasSuffix(name, ".go"):
					sources++
				}
			}
			if tests != sources || task.Files["go.mod"] == "" || task.Request == "" || task.Kind == "" || names[task.Name] {
				t.Errorf("%s: %d tests, %d sources, kind %q, or a name that occurs twice", task.Name, tests, sources, task.Kind)
			}
			if set == "short" && (sources != 1 || task.Lines < 30 || task.Lines > 60) {
				t.Errorf("%s: %d sources of %d lines, want one of 30 to 60", task.Name, sources, task.Lines)
			}
			if sources == 2 {
				two++
			}
			names[task.Name], kinds[task.Kind] = true, true
		}
		if len(kinds) < 12 {
			t.Errorf("%s: %d kinds of bug, want 12 or more", set, len(kinds))
		}
		if want := 20; set != "short" && two != want {
			t.Errorf("%s: %d tasks over two files, want %d", set, two, want)
		}
	}
}

// A few tasks are really run: each fails as it is handed out.
func TestTasksFail(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	list := read(t, "test.json")
	for i := 0; i < len(list); i += 33 {
		dir := t.TempDir()
		for name, text := range list[i].Files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("go", "test", "-count=1", ".")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL") {
			t.Errorf("%s: go test said %v, want a failed test\n%s", list[i].Name, err, out)
		}
	}
}
