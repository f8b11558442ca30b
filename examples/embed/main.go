// Command embed is the README's twenty lines: a model inside a Go program.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
)

func main() {
	ctx := context.Background()
	m, err := demo.Open(ctx) // or glm.Open(ctx, "path/to/GLM-4.7-Flash", glm.Config{})
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
