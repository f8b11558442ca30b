package workspace

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

const (
	// maxOutput is how much of each stream of a command is kept.
	maxOutput = 1 << 20
	// grace is how long the streams of a killed command may stay open.
	grace = 2 * time.Second
)

// output is what a command printed and how it ended.
type output struct {
	stdout, stderr string
	code           int
}

// command runs a program without a shell. When ctx ends it is killed, with all
// that it started if the system can do that. Output beyond maxOutput is dropped,
// not waited for.
func command(ctx context.Context, dir, name string, arguments ...string) (output, error) {
	var stdout, stderr bounded
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = dir, &stdout, &stderr, grace
	group(c)
	err := c.Run()
	o := output{stdout: string(stdout.kept), stderr: string(stderr.kept)}
	if errors.Is(err, exec.ErrWaitDelay) { // it ended, and left something behind
		killGroup(c)
		err = nil
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		o.code, err = e.ExitCode(), nil
	}
	return o, err
}

// bounded keeps the beginning of what is written to it. It embeds no buffer, whose
// ReadFrom would be used instead of Write.
type bounded struct{ kept []byte }

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), maxOutput-len(b.kept))]...)
	return len(p), nil
}
