//go:build unix

package workspace

import (
	"os/exec"
	"syscall"
)

// group puts a command into a process group of its own, which is killed as a
// whole: go test starts compilers and tests.
func group(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return killGroup(c) }
}

func killGroup(c *exec.Cmd) error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
