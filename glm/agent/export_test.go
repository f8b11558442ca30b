package agent

import (
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// Replay returns an agent that samples the given ids, reply after reply, and the
// prompts that it was shown, which grow as it runs. Ids are bytes, and then GLM's
// added tokens.
func Replay(t testing.TB, c Config, replies [][]int32) (*Agent, *[][]int32) {
	m, pool := openFixture(t, glm.PoolConfig{})
	a, err := New(m, pool, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	s := &script{model: m}
	for _, ids := range replies {
		s.sampled = append(s.sampled, slices.Clone(ids))
	}
	a.generate = s.generate
	return a, &s.prompts
}
