package glm_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
)

func Example() {
	ctx := context.Background()
	m, err := demo.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 1024, Context: 1024})
	if err != nil {
		log.Fatal(err)
	}
	s, err := pool.NewSession(glm.SessionConfig{Tenant: "example"})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range s.Generate(ctx, glm.Request{
		Messages:  []glm.Message{{Role: glm.User, Content: "What does strings.Cut do?"}},
		MaxTokens: 8,
		Sampling:  &glm.Sampling{},
	}) {
		if err != nil {
			log.Fatal(err)
		}
		if f, ok := ev.(glm.Finish); ok {
			fmt.Println(f.Usage.Output > 0, f.Usage.Output <= 8)
		}
	}
	// Output: true true
}

// A prompt that does not fit is refused with both numbers, before any work.
func Example_context() {
	ctx := context.Background()
	m, err := demo.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 256, Context: 256})
	if err != nil {
		log.Fatal(err)
	}
	_, err = glm.Collect(pool.Generate(ctx, "", glm.Request{Tokens: make([]int32, 300), MaxTokens: 10}))
	var c *glm.ContextError
	if errors.As(err, &c) {
		fmt.Println(c.Prompt, c.Max, glm.Code(err), glm.HTTPStatus(err))
	}
	// Output: 300 256 context_length_exceeded 400
}
