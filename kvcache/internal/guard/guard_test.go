package guard_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// names lists what a file declares with the given keyword.
func names(t *testing.T, file string, kind token.Token) (out []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != kind {
			t.Fatalf("%s declares something else than %v", file, kind)
		}
		for _, s := range g.Specs {
			for _, n := range s.(*ast.ValueSpec).Names {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// Both builds have the same guards: constants in one, variables in the other.
func TestBothBuildsHaveTheSameGuards(t *testing.T) {
	on, off := names(t, "on.go", token.CONST), names(t, "off.go", token.VAR)
	if len(on) < 8 || !slices.Equal(on, off) {
		t.Errorf("on: %v, off: %v", on, off)
	}
}
