package demo_test

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/glmtest"
)

// The embedded model opens, renders a conversation in its own format, and answers.
func TestOpen(t *testing.T) {
	m := glmtest.Open(t)
	if m.Template() != "GLM-5.3" {
		t.Errorf("template %q", m.Template())
	}
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 1024, Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	r, err := glm.Collect(pool.Generate(t.Context(), "", glm.Request{
		Messages:  []glm.Message{{Role: glm.User, Content: "What does strings.Cut do?"}},
		MaxTokens: 32, Sampling: &glm.Sampling{},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if r.Usage.Output == 0 || r.Text+r.Reasoning == "" {
		t.Errorf("no answer: %+v", r.Finish)
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		glmtest.Open(b)
	}
}
