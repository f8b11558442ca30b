package agent_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/agent"
	"github.com/cofferdam-ml/cofferdam/glm/agent/workspace"
)

// A program gives the model one of its own functions.
func Example() {
	ctx := context.Background()
	m, err := glm.Open(ctx, "GLM-4.7-Flash", glm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 8192, AllowSmallerPool: true})
	if err != nil {
		log.Fatal(err)
	}

	type place struct {
		City string `json:"city" jsonschema:"name of a city"`
	}
	weather := agent.Func("weather", "Tells the weather of a city.",
		func(ctx context.Context, p place) (string, error) { return "rain in " + p.City, nil })

	a, err := agent.New(m, pool, agent.Config{Tools: []agent.Tool{weather}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	for ev, err := range a.Run(ctx, "Do I need an umbrella in Oslo?") {
		if err != nil {
			log.Fatal(err)
		}
		if text, ok := ev.(agent.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
}

// A program lets the model repair the package in a folder, and survives being
// killed meanwhile: the next start goes on where this one was.
func Example_repair() {
	repair := func(ctx context.Context, m *glm.Model, pool *glm.KVPool) error {
		w, err := workspace.Open(".")
		if err != nil {
			return err
		}
		defer w.Close()
		a, err := agent.New(m, pool, agent.Config{Tools: w.Tools(), Transcript: "repair.jsonl"})
		if err != nil {
			return err
		}
		defer a.Close()
		run := a.Run(ctx, "The tests fail. Please fix the code.")
		if a.Unfinished() {
			run = a.Continue(ctx)
		}
		for ev, err := range run {
			if err != nil {
				return err
			}
			if r, ok := ev.(agent.Result); ok {
				fmt.Println(r.Call.Name, r.Text)
			}
		}
		return nil
	}
	_ = repair
}
