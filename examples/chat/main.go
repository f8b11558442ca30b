// Command chat asks a GLM model one question and streams its answer.
//
//	go run ./examples/chat [-model DIR] "prompt"
//
// Without -model it runs the small model that is embedded in the module. What
// the model thinks before it answers is printed dimmed. Ctrl-C stops at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
)

func main() {
	dir := flag.String("model", "", "checkpoint directory; empty: the embedded model")
	maxTokens := flag.Int("max", 512, "longest answer, in tokens")
	window := flag.Int("context", 4096, "longest prompt and answer, in tokens")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, `usage: chat [-model DIR] [-max N] [-context N] "prompt"`)
		flag.PrintDefaults()
	}
	flag.Parse()
	prompt := strings.Join(flag.Args(), " ")
	if prompt == "" {
		prompt = "What does the Go function strings.Cut return?"
		fmt.Println("> " + prompt)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, prompt, *maxTokens, *window); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		if errors.Is(err, glm.ErrCanceled) {
			os.Exit(130)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, prompt string, maxTokens, window int) error {
	m, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: window, Context: window, AllowSmallerPool: true})
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := pool.NewSession(glm.SessionConfig{})
	if err != nil {
		return err
	}
	defer s.Close()

	out := printer{colour: terminal(os.Stdout)}
	start := time.Now()
	var first time.Time
	var failed error
	for ev, err := range s.Generate(ctx, glm.Request{
		Messages:  []glm.Message{{Role: glm.User, Content: prompt}},
		MaxTokens: maxTokens,
	}) {
		if err != nil {
			failed = err
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		out.event(ev)
	}
	u := s.Usage()
	fmt.Printf("\n\n%s\n", out.dim(fmt.Sprintf(
		"%d prompt + %d output tokens (%d of them reasoning), first after %v, %.1f tokens/s",
		u.Prompt, u.Output, u.Reasoning, first.Sub(start).Round(time.Millisecond),
		float64(u.Output)/max(time.Since(first).Seconds(), 1e-3))))
	return failed
}

// open opens a checkpoint with a progress bar, or the embedded model.
func open(ctx context.Context, dir string) (*glm.Model, error) {
	if dir == "" {
		return demo.Open(ctx)
	}
	bar := progress{tty: terminal(os.Stderr)}
	defer bar.done()
	return glm.Open(ctx, dir, glm.Config{OnProgress: bar.show})
}
