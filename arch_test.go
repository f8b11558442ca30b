package cofferdam_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/cofferdam-ml/cofferdam"

// allowed lists, for each room, the rooms of this module that it may import.
// "x/..." covers x and everything below; the first matching line holds.
// Imports run one way; ARCHITECTURE.md says what each room owns.
var allowed = []struct {
	rooms string
	may   string
}{
	{".", ""},
	{"examples/agent", "glm/... tokenizer/... internal/tiny/tasks"},
	{"examples/...", "glm/... tokenizer/..."},
	{"glm/agent/workspace", "glm glm/agent"},
	{"glm/launchcheck", "glm kvcache tokenizer/..."}, // it drills the guards of the build
	{"glm/agent glm/disagg/...", "glm tokenizer/..."},
	{"glm/demo", "glm internal/tiny"},
	{"glm/glmtest", "glm glm/demo"},
	{"glm", "tokenizer/... kvcache moe internal/decoder internal/backend internal/checkpoint internal/cpu internal/oracle cuda"},
	{"internal/decoder", "internal/backend internal/checkpoint"},
	{"internal/cpu", "internal/backend internal/cpu/kernel moe internal/offheap"},
	{"cuda", "internal/backend moe internal/offheap"},
	{"internal/oracle", "internal/backend"},
	{"internal/backend/backendtest", "internal/backend internal/oracle"},
	{"internal/checkpoint", "internal/offheap"},
	{"tokenizer/chat tokenizer/reply", "tokenizer"},
	{"kvcache moe tokenizer internal/backend internal/cpu/kernel internal/offheap internal/tiny/... internal/golden", ""},
	{"internal/bench/... internal/eval/...", "glm/... kvcache/... moe/... cuda/... tokenizer/... internal/..."},
}

// libraries lists, for each module outside the standard library, the rooms that
// may import it; test files may import all of them.
var libraries = []struct {
	path  string
	rooms string
}{
	{"gonum.org/v1/gonum", "internal/oracle internal/bench/..."},
	{"golang.org/x/sys/cpu", "internal/cpu/kernel"},
	{"golang.org/x/sys", "internal/offheap examples/agent"},
	{"golang.org/x/exp/mmap", "internal/checkpoint"},
	{"github.com/google/go-cmp", ""},
	{"pgregory.net/rapid", ""},
}

// topLevel are the only folders that may hold Go code.
var topLevel = []string{"glm", "kvcache", "moe", "cuda", "tokenizer", "examples", "internal"}

func TestImportsRunOneWay(t *testing.T) {
	seen := 0
	for _, f := range goFiles(t) {
		seen++
		room := path.Dir(f.path)
		may, ok := mayImport(room)
		if !ok {
			t.Errorf("%s: no rule for the room %q", f.path, room)
		}
		for _, imp := range f.imports {
			if imp == "C" {
				t.Errorf("%s: cgo is not allowed", f.path)
			}
			if imp == "net/http" {
				t.Errorf("%s: net/http is not allowed in this module", f.path)
			}
			test := strings.HasSuffix(f.path, "_test.go")
			target, ours := strings.CutPrefix(imp, module+"/")
			switch {
			case !ours && strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
				if !mayUse(room, imp, test) {
					t.Errorf("%s: %s may not import %s", f.path, room, imp)
				}
			case !ours:
			case test:
				if strings.HasPrefix(target, "examples") {
					t.Errorf("%s: tests may not import %s", f.path, target)
				}
			case strings.HasPrefix(target, room+"/internal/"): // part of the package
			case !matches(may, target):
				t.Errorf("%s: %s may not import %s, only [%s]", f.path, room, target, may)
			}
		}
	}
	if seen < 20 {
		t.Fatalf("looked at %d files only: the walk is broken", seen)
	}
}

func TestTopLevelFolders(t *testing.T) {
	for _, f := range goFiles(t) {
		first, _, nested := strings.Cut(f.path, "/")
		if nested && !slices.Contains(topLevel, first) {
			t.Errorf("%s: Go code lives under %v", f.path, topLevel)
		}
	}
}

func mayUse(room, imp string, test bool) bool {
	for _, l := range libraries {
		if imp == l.path || strings.HasPrefix(imp, l.path+"/") {
			return test || matches(l.rooms, room)
		}
	}
	return false
}

// mayImport returns the rooms that a room may import. A package's own internal
// folder follows the rule of the package.
func mayImport(room string) (string, bool) {
	if owner, _, nested := strings.Cut(room, "/internal/"); nested {
		room = owner
	}
	for _, rule := range allowed {
		if matches(rule.rooms, room) {
			return rule.may, true
		}
	}
	return "", false
}

func matches(patterns, room string) bool {
	for p := range strings.FieldsSeq(patterns) {
		if base, ok := strings.CutSuffix(p, "/..."); ok {
			if room == base || strings.HasPrefix(room, base+"/") {
				return true
			}
		} else if p == room {
			return true
		}
	}
	return false
}

type goFile struct {
	path    string
	imports []string
}

// goFiles parses the imports of every Go file of this module: nested modules,
// testdata and folders that the go command ignores are left out.
func goFiles(t *testing.T) (files []goFile) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p == "." {
				return nil
			}
			if name == "testdata" || name[0] == '_' || name[0] == '.' {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		ast, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := goFile{path: filepath.ToSlash(p)}
		for _, spec := range ast.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imp)
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
