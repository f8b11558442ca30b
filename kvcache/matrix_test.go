//go:build !cofferdam_unsafe

package kvcache

import (
	"os/exec"
	"strings"
	"testing"
)

// The matrices of guards need a build in which guards can be switched off.
// This runs them in it: any one guard stops the leak, without all of them it
// is there, and the test sees it.
func TestGuardMatrices(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := exec.Command(goTool, "test", "-vet=off", "-v", "-tags", "cofferdam_unsafe", "-run", "Matrix$", ".").CombinedOutput()
	out := string(raw)
	for test, want := range map[string]int{"TestFoundingIncidentMatrix": 32, "TestLateWriteMatrix": 8} {
		if have := strings.Count(out, "--- PASS: "+test+"/on:"); err != nil || have != want {
			t.Errorf("%s: %d of %d pass: %v", test, have, want, err)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
