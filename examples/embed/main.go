// Command embed is twenty lines: a model inside a Go program.
//
//	go run ./examples/embed DIR
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cofferdam-ml/cofferdam/glm"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: embed DIR")
	}
	ctx := context.Background()
	m, err := glm.Open(ctx, os.Args[1], glm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 4096, Context: 4096})
	if err != nil {
		log.Fatal(err)
	}
	ask := glm.Request{Messages: []glm.Message{{Role: glm.User, Content: "What is a goroutine?"}}, MaxTokens: 100}
	for ev, err := range pool.Generate(ctx, "tenant", ask) {
		if err != nil {
			log.Fatal(err)
		}
		if text, ok := ev.(glm.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
	fmt.Println()
}
