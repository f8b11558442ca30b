package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"

	"github.com/cofferdam-ml/cofferdam/glm/agent"
)

// asking makes tools that run commands ask before they do.
func asking(s *screen, tools []agent.Tool) []agent.Tool {
	var mu sync.Mutex
	always := false
	for i, t := range tools {
		if t.Name != "run_tests" {
			continue
		}
		tools[i].Call = func(ctx context.Context, arguments json.RawMessage) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if !always {
				answer, err := s.ask(ctx, "Run go test? It runs the code in this folder. [y]es, [a]lways, [N]o: ")
				if err != nil {
					return "", err
				}
				switch strings.ToLower(answer) {
				case "a", "always":
					always = true
				case "y", "yes":
				default:
					return "", errors.New("the user does not want this to be run")
				}
			}
			return t.Call(ctx, arguments)
		}
	}
	return tools
}

// asks reports whether somebody can be asked.
func (s *screen) asks() bool { return s.terminal && prepare(os.Stdin) }

// ask asks on the terminal. Where nobody can answer, the answer is "".
func (s *screen) ask(ctx context.Context, question string) (string, error) {
	if !s.asks() {
		return "", nil
	}
	s.mu.Lock()
	label := s.label
	s.label = ""
	s.fresh()
	s.write(s.paint(bold, question))
	s.mu.Unlock()
	answer := make(chan string, 1)
	go func() { // is left behind if nobody answers before the program ends
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		s.mu.Lock()
		s.write("\n")
		s.mu.Unlock()
		return "", ctx.Err()
	case a := <-answer:
		s.busy(label)
		return a, nil
	}
}
