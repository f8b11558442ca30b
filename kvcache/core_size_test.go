package kvcache

import (
	"bufio"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The core stays small enough to read in one sitting.
func TestCoreIsSmall(t *testing.T) {
	files, err := filepath.Glob("core*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		f.Close()
	}
	if lines < 300 || lines >= 1000 {
		t.Errorf("the core has %d lines without comments, want fewer than 1000", lines)
	}
}

// The state holds no map, pointer, function, channel or interface.
func TestStateIsAPlainValue(t *testing.T) {
	plain(t, "state", reflect.TypeFor[state]())
}

func plain(t *testing.T, path string, typ reflect.Type) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			plain(t, path+"."+f.Name, f.Type)
		}
	case reflect.Slice, reflect.Array:
		plain(t, path+"[]", typ.Elem())
	case reflect.Map, reflect.Pointer, reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
		t.Errorf("%s is a %v", path, typ)
	}
}
