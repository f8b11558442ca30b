package launchcheck

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	session  = "../../kvcache/session.go"
	keys     = "../../kvcache/key.go"
	switches = "../../kvcache/internal/guard/off.go"
	memory   = "../pool.go"
)

// broken are builds with one mistake. In each, the command must end with status
// 1 and show the doubt in the named lines.
var broken = []struct {
	name     string
	file     string
	old, new string
	doubts   []string // "group, name"
}{
	{"ADMIT off", switches, "Admit = true", "Admit = false", []string{"guard, ADMIT alone"}},
	{"TERM off", switches, "Term  = true", "Term  = false", []string{"guard, TERM alone", "limits, of the pool", "limits, of the configuration"}},
	{"HAND off", switches, "Hand  = true", "Hand  = false", []string{"guard, HAND alone"}},
	{"MARK off", switches, "Mark  = true", "Mark  = false", []string{"guard, MARK alone"}},
	{"SCRUB off", switches, "Scrub = true", "Scrub = false", []string{"guard, SCRUB alone", "reuse, pages that the donor left", "prefix, forgotten"}},
	{"the tenant left out of scope and key", session, "scope: Scope{Tenant: tenant}", `scope: Scope{Tenant: "all"}`,
		[]string{"prefix, own pages only, to the token", "prefix, forgotten"}},
	{"the tenant left out of the key", keys, `field(b, "tenant", []byte(s.Tenant))`, `field(b, "tenant", nil)`, []string{"guard, KEY alone"}},

	{"memory that does not scrub", memory, "{ scrub(s.pages, pages...) }", "{}", []string{"reuse, pages that the donor left"}},
	{"outputs of a batch swapped", "../batch.go", "t.g.accept(r.ID[i], r.LogProb[i], r.Top[i])",
		"i = len(r.ID) - 1 - i\n\t\t\tt.g.accept(r.ID[i], r.LogProb[i], r.Top[i])", []string{"reuse, side by side"}},
	{"a prompt cut to fit", "../session.go", "Tokens: p.ids, MaxTokens: cmp.Or(r.MaxTokens, s.pool.maxTokens)}",
		"Tokens: p.ids[max(0, len(p.ids)-s.pool.Limits().Prompt):], MaxTokens: cmp.Or(1, 2)}", []string{"limits, of the pool"}},
	{"reuse not accounted for", "../generation.go", "Cached: lease.Reused()", "Cached: 0", []string{"prefix, own pages only, to the token"}},
}

// launch builds the command, with the files of an overlay in place of ours, and
// runs it. The guards are variables in all these builds, on at start.
func launch(t *testing.T, overlay map[string]string) (out string, status int) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	list, command := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "launchcheck.exe")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(goTool, "build", "-tags", "cofferdam_unsafe", "-overlay", list, "-o", command, "../../examples/launchcheck")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, command, "-model", filepath.Join(goldens, "glm52")).CombinedOutput()
	exit, _ := errors.AsType[*exec.ExitError](err)
	if err != nil && (exit == nil || !exit.Exited()) {
		t.Fatalf("%v\n%s", err, text)
	}
	if exit != nil {
		status = exit.ExitCode()
	}
	return string(text), status
}

// The command tells a broken build from a sound one by its exit status, and
// says where.
func TestBrokenBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command once per fault")
	}
	if out, status := launch(t, nil); status != 0 || strings.Contains(out, "DOUBT") || !strings.Contains(out, ": 0 doubts") {
		t.Fatalf("without a fault: status %d\n%s", status, out)
	}
	for _, b := range broken {
		t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			path, err := filepath.Abs(b.file)
			if err != nil {
				t.Fatal(err)
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), b.old); n != 1 {
				t.Fatalf("the fault no longer applies: %q stands %d times in %s", b.old, n, b.file)
			}
			faulty := filepath.Join(t.TempDir(), filepath.Base(path))
			if err := os.WriteFile(faulty, []byte(strings.Replace(string(source), b.old, b.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			out, status := launch(t, map[string]string{path: faulty})
			if status != 1 {
				t.Fatalf("status %d\n%s", status, out)
			}
			for _, line := range b.doubts {
				if !regexp.MustCompile(`(?m)^DOUBT ` + regexp.QuoteMeta(line) + ": ").MatchString(out) {
					t.Errorf("no doubt about %s\n%s", line, out)
				}
			}
		})
	}
}
