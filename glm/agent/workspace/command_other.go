//go:build !unix

package workspace

import "os/exec"

// group leaves a command as it is: it is killed alone.
func group(*exec.Cmd) {}

func killGroup(*exec.Cmd) error { return nil }
