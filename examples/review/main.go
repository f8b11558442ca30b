// Command review reads a diff on standard input and prints findings, for a CI
// pipeline:
//
//	git diff main | go run ./examples/review [-model DIR]
//
// It exits with 1 when it could not review, never because of a finding. A diff
// that does not fit is refused with both numbers, not cut.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
)

const instruction = "You review Go code. For each problem in the diff print one line: file, line, problem. If there is none, print: no findings."

func main() {
	dir := flag.String("model", "", "checkpoint directory; empty: the embedded model")
	tokens := flag.Int("context", 8192, "longest diff and findings, in tokens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout, *dir, *tokens); err != nil {
		fmt.Fprintln(os.Stderr, "review:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer, dir string, tokens int) error {
	diff, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if len(diff) == 0 {
		return errors.New("there is no diff on standard input")
	}
	m, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: tokens, Context: tokens, AllowSmallerPool: true})
	if err != nil {
		return err
	}
	r, err := glm.Collect(pool.Generate(ctx, "", glm.Request{
		Messages: []glm.Message{
			{Role: glm.System, Content: instruction},
			{Role: glm.User, Content: string(diff)},
		},
		Sampling: &glm.Sampling{}, // greedy: the same diff gives the same findings
	}))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, r.Text)
	if r.Reason == glm.FinishLength {
		err = errors.Join(err, fmt.Errorf("the findings were cut after %d tokens", r.Usage.Output))
	}
	return err
}

func open(ctx context.Context, dir string) (*glm.Model, error) {
	if dir == "" {
		return demo.Open(ctx)
	}
	return glm.Open(ctx, dir, glm.Config{})
}
