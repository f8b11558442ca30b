// Package glmtest gives tests of host programs a real model: inference on the
// CPU with the model that is embedded in the module, no download and no mock.
//
//	func TestAnswer(t *testing.T) {
//		pool := glmtest.Pool(t, 2048)
//		reply, err := glm.Collect(pool.Generate(t.Context(), "", glm.Request{...}))
//		...
//	}
package glmtest

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/glm/demo"
)

// Open opens the embedded model and closes it when the test ends.
func Open(t testing.TB) *glm.Model {
	t.Helper()
	m, err := demo.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Pool opens the embedded model with a pool of that many tokens, both closed
// when the test ends.
func Pool(t testing.TB, tokens int) *glm.KVPool {
	t.Helper()
	p, err := Open(t).NewKVPool(glm.PoolConfig{Tokens: tokens, Context: tokens, AllowSmallerPool: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
