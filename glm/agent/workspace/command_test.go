package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const module = "module odd\n\ngo 1.26\n"

func TestTest(t *testing.T) {
	t.Parallel()
	const ok = "package odd\n\nimport \"testing\"\n\nfunc Test(t *testing.T) {\n\t%s\n}\n"
	body := func(s string) string { return strings.Replace(ok, "%s", s, 1) }
	for name, test := range map[string]struct {
		files  map[string]string
		want   string // the beginning
		has    string
		passes bool
	}{
		"pass":  {map[string]string{"odd.go": "package odd", "odd_test.go": body("")}, "ok  \todd", "", true},
		"fail":  {map[string]string{"odd.go": "package odd", "odd_test.go": body(`t.Error("no")`)}, "--- FAIL: Test\n    odd_test.go:6: no\nFAIL\nFAIL\todd", "", false},
		"build": {map[string]string{"odd.go": "package odd; var x int = \"\"", "odd_test.go": body("")}, "# odd [odd.test]\n./odd.go:1:", "build failed", false},
		"long":  {map[string]string{"odd.go": "package odd", "odd_test.go": body(`for range 3000 { t.Error("é") }`)}, "--- FAIL: Test\n", "", false},
		"below": {map[string]string{"odd.go": "package odd", "sub/sub.go": "package sub", "sub/sub_test.go": strings.Replace(body(`t.Error("no")`), "odd", "sub", 1)}, "?   \todd\t[no test files]\n--- FAIL: Test\n", "FAIL\todd/sub", false},
	} {
		t.Run(name, func(t *testing.T) {
			test.files["go.mod"] = module
			w, _ := lay(t, test.files)
			got := use(t, w, "run_tests", struct{}{})
			if !strings.HasPrefix(got, test.want) || !strings.Contains(got, test.has) {
				t.Errorf("%q, want %q and %q", got, test.want, test.has)
			}
			if n := len([]rune(got)); n > maxResult || name == "long" && n != maxResult {
				t.Errorf("%d characters", n)
			}
			if name == "fail" {
				if again := use(t, w, "run_tests", struct{}{}); again != got {
					t.Errorf("%q and then %q", got, again)
				}
			}
			if passes, err := w.Passes(t.Context()); err != nil || passes != test.passes {
				t.Errorf("passes: %v, %v", passes, err)
			}
		})
	}
}

// What go test prints, and what is made of it; durations of every form.
func TestReport(t *testing.T) {
	for _, test := range []struct{ stdout, stderr, want string }{
		{"PASS\nok  \todd\t0.003s\n", "", "ok  \todd"},
		{"ok  \todd\t(cached)\n", "", "ok  \todd\t(cached)"},
		{"--- FAIL: Test (0.00s)\n    x\nFAIL\nexit status 1\nFAIL\todd\t12.345s\n", "", "--- FAIL: Test\n    x\nFAIL\nFAIL\todd"},
		{"FAIL\todd [build failed]\n", "# odd\n./odd.go:1:2: no\n", "# odd\n./odd.go:1:2: no\nFAIL\todd [build failed]"},
		{"panic: x (0.50s) y\n", "z\n", "panic: x y\nz"},
		{"a\r\nb\xff\n", "", "a\nb\uFFFD"},
		{strings.Repeat("é", 2500), "", strings.Repeat("é", 2000)},
	} {
		if got := report(test.stdout, test.stderr); got != test.want {
			t.Errorf("%q, %q: %q, want %q", test.stdout, test.stderr, got, test.want)
		}
	}
}

// A command that does not end is killed with what it started, and what it printed
// stays bounded.
func TestCommandIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": module,
		// The child outlives its parent's end unless the group is killed; it holds
		// the streams and marks that it lives.
		"main.go": `package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		for range 600 {
			os.WriteFile("alive", []byte(time.Now().Format(time.RFC3339Nano)), 0o600)
			time.Sleep(50 * time.Millisecond)
		}
		return
	}
	c := exec.Command(os.Args[0], "child")
	c.Stdout = os.Stdout
	if err := c.Start(); err != nil {
		panic(err)
	}
	fmt.Println(strings.Repeat("x", 2<<20))
	time.Sleep(time.Minute)
}
`}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if o, err := command(t.Context(), dir, "go", "build", "-o", "loop.exe", "."); err != nil || o.code != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	alive := filepath.Join(dir, "alive")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() { // ends the command once the child lives
		for ctx.Err() == nil {
			if _, err := os.Stat(alive); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	began := time.Now()
	o, err := command(ctx, dir, filepath.Join(dir, "loop.exe"))
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	if err == nil && o.code == 0 || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("code %d, %v, %v", o.code, err, ctx.Err())
	}
	if len(o.stdout) > maxOutput {
		t.Errorf("%d bytes of output", len(o.stdout))
	}
	if runtime.GOOS == "windows" { // where only the command itself is killed
		return
	}
	time.Sleep(200 * time.Millisecond)
	before, err := os.ReadFile(alive)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if after, err := os.ReadFile(alive); err != nil || string(after) != string(before) {
		t.Errorf("the child lives on: %s, %s, %v", before, after, err)
	}
}

// A context that ends while tests run is the error; there is no result.
func TestTestIsCancelled(t *testing.T) {
	t.Parallel()
	w, _ := lay(t, map[string]string{"go.mod": module, "odd_test.go": "package odd\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc Test(t *testing.T) { time.Sleep(8 * time.Second) }\n"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err := w.Test(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 6*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
