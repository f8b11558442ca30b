// Command launchcheck looks for a leak between tenants before a server opens its
// doors, with the operator's own checkpoint on the operator's own machine.
//
//	go run ./examples/launchcheck -model DIR
//
// It prints a table of what was looked at. The exit status is 0 only if nothing
// is in doubt, 1 on any doubt, 2 if the model cannot be opened.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
	"github.com/cofferdam-ml/cofferdam/glm/launchcheck"
)

func main() {
	dir := flag.String("model", "", "checkpoint directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	m, err := open(ctx, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "launchcheck:", err)
		os.Exit(2)
	}
	defer m.Close()
	report := launchcheck.Run(ctx, m, func(c launchcheck.Check) {
		fmt.Fprintf(os.Stderr, "%s, %s: done\n", c.Group, c.Name)
	})
	if _, err := report.WriteTo(os.Stdout); err != nil || !report.OK() {
		os.Exit(1)
	}
}

// open opens the model to check.
func open(ctx context.Context, dir string) (*glm.Model, error) {
	if dir == "" {
		return demo.Open(ctx)
	}
	return glm.Open(ctx, dir, glm.Config{})
}
