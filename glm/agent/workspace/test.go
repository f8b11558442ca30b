package workspace

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// testTime is how long run_tests may take, besides go test's own limit of
	// ten seconds for a package: compiling comes first.
	testTime = 120 * time.Second
	// maxResult is how many characters of the output the model sees.
	maxResult = 2000
)

// Test runs go test in the folder, in all packages below it if there are any,
// and returns what it prints without durations, at most 2,000 characters of it.
// Failing tests are no error.
func (w *Workspace) Test(ctx context.Context) (string, error) {
	arguments := []string{"test", "-count=1", "-timeout=10s"}
	names, err := w.files()
	if err != nil {
		return "", reason(err)
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".go") && strings.Contains(n, "/") }) {
		arguments = append(arguments, "./...")
	}
	limited, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	o, err := command(limited, w.dir, "go", arguments...)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "FAIL\ttimeout", nil
	case err != nil:
		return "", err
	}
	return report(o.stdout, o.stderr), nil
}

// Passes runs go test in the folder and reports whether it succeeds.
func (w *Workspace) Passes(ctx context.Context) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	o, err := command(limited, w.dir, "go", "test", "-count=1", "-timeout=10s", "./...")
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil && limited.Err() == nil && o.code == 0, err
}

// What go test prints that differs from run to run, or says nothing.
var (
	inLine  = regexp.MustCompile(` \(\d+\.\d+s\)`)
	atEnd   = regexp.MustCompile(`(?m)\t\(?\d+\.\d+s\)?$`)
	verdict = regexp.MustCompile(`(?m)^(exit status \d+|PASS)\n`)
)

// report makes of the output of go test what the model is shown: the same for
// every run of the same code.
func report(stdout, stderr string) string {
	text := stdout + stderr
	if strings.Contains(text, "build failed") {
		text = stderr + stdout
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = inLine.ReplaceAllString(text, "")
	text = atEnd.ReplaceAllString(text, "")
	text = verdict.ReplaceAllString(text, "")
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if r := []rune(text); len(r) > maxResult {
		text = string(r[:maxResult])
	}
	return text
}
