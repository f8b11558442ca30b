package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// lay writes files into a new folder and opens it.
func lay(t testing.TB, files map[string]string) (*Workspace, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, dir
}

// use calls a tool as an agent does.
func use(t testing.TB, w *Workspace, name string, arguments any) string {
	t.Helper()
	for _, tool := range w.Tools() {
		if tool.Name != name {
			continue
		}
		data, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		text, err := tool.Call(t.Context(), data)
		if err != nil {
			return "error: " + err.Error()
		}
		return text
	}
	t.Fatalf("no tool %s", name)
	return ""
}

func read(t testing.TB, w *Workspace, path string) string {
	return use(t, w, "read_file", map[string]string{"path": path})
}

func edit(t testing.TB, w *Workspace, path, old, new string) string {
	return use(t, w, "edit_file", map[string]string{"path": path, "old": old, "new": new})
}

func TestList(t *testing.T) {
	w, dir := lay(t, map[string]string{
		"b.go": "", "a.go": "", "B.go": "", "sub/z.go": "", "sub-1/y.go": "", "sub/deep/er/x.txt": "",
		".git/config": "", "sub/.git/config": "", ".cofferdam-left": "", ".github/ci.yml": "",
	})
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := ".github/ci.yml\nB.go\na.go\nb.go\nsub-1/y.go\nsub/deep/er/x.txt\nsub/z.go"
	if runtime.GOOS != "linux" { // a.go and A.go may be one
		want = strings.Replace(want, "B.go\n", "", 1)
	}
	if got := use(t, w, "list_files", struct{}{}); got != want && runtime.GOOS == "linux" || !strings.HasSuffix(got, "sub/z.go") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestListIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 5003 files")
	}
	files := map[string]string{}
	for n := range maxFiles + 3 {
		files[fmt.Sprintf("%05d", n)] = ""
	}
	w, _ := lay(t, files)
	got := use(t, w, "list_files", struct{}{})
	if !strings.HasSuffix(got, "\n(and 3 more files)") || strings.Count(got, "\n") != maxFiles {
		t.Errorf("%d lines, the end is %q", strings.Count(got, "\n")+1, got[len(got)-40:])
	}
}

// Every way out of the folder that a model could spell is refused with a text,
// for reading and for writing, and nothing outside changes.
func TestConfinement(t *testing.T) {
	w, dir := lay(t, map[string]string{"in.go": "inside", "sub/in.go": "inside", ".git/config": "inside"})
	outside := filepath.Join(t.TempDir(), "secret.go")
	if err := os.WriteFile(outside, []byte("inside secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		outside:                           " is outside of the folder",
		filepath.ToSlash(relative):        " is outside of the folder",
		"sub/../../" + filepath.Base(dir): " is outside of the folder",
		"sub/../in.go":                    " is outside of the folder",
		"..":                              " is outside of the folder",
		`..\secret.go`:                    "no file ",
		"/etc/passwd":                     " is outside of the folder",
		"./in.go":                         "no file ",
		"sub//in.go":                      "no file ",
		"sub/":                            "no file ",
		"sub":                             "no file ",
		".":                               "no file ",
		"":                                "no file ",
		"in.go\x00":                       "no file ",
		"IN.go":                           "no file ",
		"in.go/x":                         "no file ",
		".git/config":                     "no file ",
		"~/in.go":                         "no file ",
		"in.go ":                          "no file ",
	}
	if os.Symlink(outside, filepath.Join(dir, "link.go")) == nil {
		for name, target := range map[string]string{"folder": filepath.Dir(outside), "inner.go": filepath.Join(dir, "in.go"), "innersub": "sub", "dangling.go": "nowhere"} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []string{"link.go", "folder/secret.go", "inner.go", "innersub/in.go", "dangling.go"} {
			paths[p] = " leads through a symbolic link"
		}
	}
	for p, want := range paths {
		for what, got := range map[string]string{"read": read(t, w, p), "edit": edit(t, w, p, "inside", "changed")} {
			if !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) || strings.Contains(got, "secret\n") {
				t.Errorf("%s %q: %q, want an error with %q", what, p, got, want)
			}
			if filepath.IsAbs(p) {
				continue
			}
			if strings.Contains(got, dir) {
				t.Errorf("%s %q tells where the folder is: %q", what, p, got)
			}
		}
	}
	for _, name := range []string{outside, filepath.Join(dir, "in.go"), filepath.Join(dir, "sub", "in.go"), filepath.Join(dir, ".git", "config")} {
		if data, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(data), "inside") {
			t.Errorf("%s is %q, %v", name, data, err)
		}
	}
	if list := use(t, w, "list_files", struct{}{}); list != "in.go\nsub/in.go" {
		t.Errorf("the list is %q", list)
	}
}

// A folder that becomes a link between the look and the step is still refused: the
// root holds.
func TestRootHolds(t *testing.T) {
	w, dir := lay(t, map[string]string{"sub/in.go": "inside"})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "in.go"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		sub, away := filepath.Join(dir, "sub"), filepath.Join(dir, "away")
		for {
			select {
			case <-stop:
				return
			default:
			}
			if os.Rename(sub, away) == nil {
				if os.Symlink(outside, sub) == nil {
					os.Remove(sub)
				}
				os.Rename(away, sub)
			}
		}
	})
	inside := 0
	for range 2000 {
		switch got := read(t, w, "sub/in.go"); {
		case got == "inside":
			inside++
		case !strings.HasPrefix(got, "error: "):
			t.Fatalf("read %q", got)
		}
		if got := edit(t, w, "sub/in.go", "secret", "changed"); !strings.HasPrefix(got, "error: ") {
			t.Fatalf("edited: %q", got)
		}
	}
	close(stop)
	done.Wait()
	t.Logf("%d of 2000 reads found the file", inside)
	if got := read(t, w, "sub/in.go"); got != "inside" {
		t.Errorf("in the end: %q", got)
	}
	if data, err := os.ReadFile(filepath.Join(outside, "in.go")); err != nil || string(data) != "secret" {
		t.Errorf("outside is %q, %v", data, err)
	}
}

func TestReadRefuses(t *testing.T) {
	w, _ := lay(t, map[string]string{
		"large": strings.Repeat("x", maxFile+1), "most": strings.Repeat("x", maxFile),
		"binary": "a\x00b", "latin": "caf\xe9", "dos": "a\r\nb\r\n", "mixed": "a\r\nb\n",
	})
	for path, want := range map[string]string{
		"large": "error: large has more than 1048576 bytes", "most": strings.Repeat("x", maxFile),
		"binary": "error: binary is no text", "latin": "error: latin is no text",
		"dos": "a\nb\n", "mixed": "a\r\nb\n",
	} {
		if got := read(t, w, path); got != want {
			t.Errorf("%s: %.60q, want %.60q", path, got, want)
		}
	}
}

func TestEdit(t *testing.T) {
	w, dir := lay(t, map[string]string{
		"a.go": "one two two\n", "a_test.go": "one", "go.mod": "one", "sub/go.mod": "one", "dos.go": "a\r\nb\r\n", "short": "one", "mixed": "a\r\nb\n",
	})
	if err := os.Chmod(filepath.Join(dir, "a.go"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, old, new, want, text string }{
		{"a.go", "one", "1$1\\0", "ok", "1$1\\0 two two\n"},
		{"a.go", "two", "x", "error: old text occurs 2 times in a.go", "1$1\\0 two two\n"},
		{"a.go", "three", "x", "error: old text not found in a.go", "1$1\\0 two two\n"},
		{"a.go", "", "x", "error: old text not found in a.go", "1$1\\0 two two\n"},
		{"a.go", "two two", "", "ok", "1$1\\0 \n"},
		{"a_test.go", "one", "x", "error: a_test.go is read-only", "one"},
		{"go.mod", "one", "x", "error: go.mod is read-only", "one"},
		{"sub/go.mod", "one", "x", "error: sub/go.mod is read-only", "one"},
		{"dos.go", "a\nb", "b\nc\na", "ok", "b\r\nc\r\na\r\n"},
		{"short", "one", "a\nb", "ok", "a\nb"},
		{"mixed", "b\n", "c\nd\n", "ok", "a\r\nc\nd\n"},
	} {
		if got := edit(t, w, test.path, test.old, test.new); got != test.want {
			t.Errorf("%s, %q: %q, want %q", test.path, test.old, got, test.want)
		}
		data, err := os.ReadFile(filepath.Join(dir, test.path))
		if err != nil || string(data) != test.text {
			t.Errorf("%s, %q: the text is %q, want %q", test.path, test.old, data, test.text)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a.go")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("permissions became %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, temporary+"*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Who reads while a file is edited sees the old or the new text.
func TestEditIsAtomic(t *testing.T) {
	a, b := strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<16)
	w, dir := lay(t, map[string]string{"f": "x" + a})
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			data, err := os.ReadFile(filepath.Join(dir, "f"))
			if err != nil && runtime.GOOS == "windows" {
				continue
			}
			if s := string(data); err != nil || s != "x"+a && s != "x"+b {
				t.Errorf("a reader saw %d bytes, %v", len(data), err)
				return
			}
		}
	})
	for range 20 {
		if got := edit(t, w, "f", a, b); got != "ok" {
			t.Error(got)
		}
		if got := edit(t, w, "f", b, a); got != "ok" {
			t.Error(got)
		}
	}
	close(stop)
	done.Wait()
}

// An edit that fails half-way leaves the old file and nothing else.
func TestEditFails(t *testing.T) {
	w, dir := lay(t, map[string]string{"f": "old"})
	for name, mode := range map[string]fs.FileMode{dir: 0o555, filepath.Join(dir, "f"): 0o644} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(dir, 0o700)
	plainly(t, func() {
		if got := edit(t, w, "f", "old", "new"); !strings.HasPrefix(got, "error: f: ") || strings.Contains(got, dir) {
			t.Errorf("%q", got)
		}
	})
	if data, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(data) != "old" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	entries, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestArguments(t *testing.T) {
	w, _ := lay(t, map[string]string{"f": "x"})
	for _, test := range []struct {
		tool      string
		arguments map[string]any
	}{
		{"read_file", nil}, {"read_file", map[string]any{"path": "f", "line": 1}}, {"list_files", map[string]any{"path": "."}},
		{"edit_file", map[string]any{"path": "f", "old": "x"}}, {"run_tests", map[string]any{"verbose": true}},
	} {
		if test.arguments == nil {
			test.arguments = map[string]any{}
		}
		if got := use(t, w, test.tool, test.arguments); got != "error: wrong arguments" {
			t.Errorf("%s %v: %q", test.tool, test.arguments, got)
		}
	}
}

func TestClosed(t *testing.T) {
	w, _ := lay(t, map[string]string{"f": "x"})
	w.Close()
	for _, got := range []string{use(t, w, "list_files", struct{}{}), read(t, w, "f"), edit(t, w, "f", "x", "y")} {
		if !strings.HasPrefix(got, "error: ") {
			t.Errorf("%q", got)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	if _, err := w.Test(context.Background()); err == nil {
		t.Error("tests of a closed folder ran")
	}
}
