package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// child is an engine in a process of its own that answers a line with a line.
type child struct {
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func start(name, path string, args ...string) (*child, error) {
	c := &child{name: name, command: exec.Command(path, args...)}
	c.command.Stderr = os.Stderr
	var err error
	if c.in, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 1<<20)
	return c, c.command.Start()
}

// pid is the process, for counting its use of the processors.
func (c *child) pid() int { return c.command.Process.Pid }

// ask sends a command, unless it is empty, and returns the fields of the answer.
func (c *child) ask(format string, args ...any) ([]string, error) {
	if format != "" {
		if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: no answer to %.60q: %w", c.name, fmt.Sprintf(format, args...), err)
	}
	return strings.Fields(line), nil
}

// seconds is ask for an answer of times.
func (c *child) seconds(format string, args ...any) ([]float64, error) {
	fields, err := c.ask(format, args...)
	if err != nil {
		return nil, err
	}
	times := make([]float64, len(fields))
	for i, f := range fields {
		if times[i], err = strconv.ParseFloat(f, 64); err != nil {
			return nil, fmt.Errorf("%s: answer %q: %w", c.name, f, err)
		}
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("%s: empty answer", c.name)
	}
	return times, nil
}

// stop ends the process.
func (c *child) stop() error {
	c.in.Close()
	return c.command.Wait()
}
