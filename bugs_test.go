package cofferdam_test

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// BUGS.md has all fifty entries in order, and each says what excludes it: tests
// that exist, and of which one at least runs in a normal build, or in words why
// it cannot arise or what is open.
func TestBugsAreExcluded(t *testing.T) {
	text, err := os.ReadFile("BUGS.md")
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`(?m)^### (\d+)\. (.+)$`)
	heads := entry.FindAllSubmatchIndex(text, -1)
	if len(heads) != 50 {
		t.Fatalf("%d entries, want 50", len(heads))
	}
	named := 0
	for i, at := range heads {
		if n, _ := strconv.Atoi(string(text[at[2]:at[3]])); n != i+1 {
			t.Fatalf("entry %d has the number %d", i+1, n)
		}
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		body, _, _ := strings.Cut(string(text[at[1]:end]), "\n## ")
		excluded, tests := exclusion(body)
		if !excluded {
			t.Errorf("entry %d says neither tests, nor why it cannot arise, nor what is open", i+1)
		}
		normal := false
		for _, name := range tests {
			named++
			exists, tagged := findTest(t, name)
			if !exists {
				t.Errorf("entry %d: there is no test %s", i+1, name)
			}
			normal = normal || exists && !tagged
		}
		if len(tests) > 0 && !normal {
			t.Errorf("entry %d: none of its tests runs in a normal build", i+1)
		}
	}
	if named < 100 {
		t.Errorf("%d tests are named only: they are not read right", named)
	}
}

// exclusion returns what the last paragraphs of an entry say.
func exclusion(body string) (excluded bool, tests []string) {
	name := regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz)\\w+)`")
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		kind, says, _ := strings.Cut(strings.TrimSpace(paragraph), ": ")
		switch kind {
		case "Tests":
			for _, m := range name.FindAllStringSubmatch(says, -1) {
				tests = append(tests, m[1])
			}
			// Nothing stands there that is not the name of a test.
			if rest := strings.Trim(name.ReplaceAllString(says, ""), ", \n"); rest != "" {
				tests = append(tests, rest)
			}
			excluded = excluded || len(tests) > 0
		case "Cannot arise", "Open":
			excluded = excluded || len(says) > 20
		}
	}
	return excluded, tests
}

// findTest looks for "package.Test" in the package's folder. tagged: only a
// build with a tag has it.
func findTest(t *testing.T, name string) (exists, tagged bool) {
	t.Helper()
	dir, function, ok := strings.Cut(name, ".")
	if !ok {
		return false, false
	}
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == function {
				return true, needsTag(f)
			}
		}
	}
	return false, false
}

// needsTag reports whether a file has a build constraint that a build without
// tags does not satisfy.
func needsTag(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if group.Pos() < f.Package && constraint.IsGoBuild(c.Text) {
				x, err := constraint.Parse(c.Text)
				return err != nil || !x.Eval(func(tag string) bool { return tag == "unix" || tag == "linux" })
			}
		}
	}
	return false
}

// SECURITY.md lists all fuzz targets of the module, and no others.
func TestFuzzTargetsAreListed(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9/]+\\.Fuzz\\w+)`").FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = true
	}
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			name := path.Dir(f.path) + "." + fn.Name.Name
			if !listed[name] {
				t.Errorf("%s is not listed", name)
			}
			delete(listed, name)
		}
	}
	for name := range listed {
		t.Errorf("%s is listed and does not exist", name)
	}
}

// The reader of BUGS.md sees what is missing.
func TestBugsAreRead(t *testing.T) {
	for body, want := range map[string]bool{
		"\n\nText.\n\nTests: `kvcache.TestDrill`\n\n":                              true,
		"\n\nText.\n\nCannot arise: for there is nothing of the kind.\n\n":         true,
		"\n\nText.\n\nTests: \n\n":                                                 false,
		"\n\nText of Tests: `kvcache.TestDrill` in mid-sentence.\n\nOpen: yes\n\n": false,
	} {
		if excluded, _ := exclusion(body); excluded != want {
			t.Errorf("%q: %v", body, excluded)
		}
	}
	for name, want := range map[string][2]bool{
		"kvcache.TestDrill":                  {true, false},
		"kvcache.TestFoundingIncidentMatrix": {true, true},
		"kvcache.TestNothingOfTheKind":       {false, false},
		"nowhere.TestDrill":                  {false, false},
		"TestDrill and more":                 {false, false},
	} {
		if exists, tagged := findTest(t, name); exists != want[0] || tagged != want[1] {
			t.Errorf("%s: exists %v, tagged %v", name, exists, tagged)
		}
	}
}
