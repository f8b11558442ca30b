package tasks

import (
	"path"
	"strings"
	"testing"
)

// Every task can be laid out as one flat package with a test and a module file.
func TestShort(t *testing.T) {
	list, err := Short()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 100 {
		t.Errorf("%d tasks, want 100", len(list))
	}
	names := map[string]bool{}
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
		if tests == 0 || sources == 0 || task.Files["go.mod"] == "" || task.Request == "" || task.Kind == "" || names[task.Name] {
			t.Errorf("%s: %d tests, %d sources, kind %q, or a name that occurs twice", task.Name, tests, sources, task.Kind)
		}
		names[task.Name] = true
	}
}
