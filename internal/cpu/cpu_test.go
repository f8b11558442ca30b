package cpu_test

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/backend/backendtest"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
)

func TestBackend(t *testing.T) {
	for _, threads := range []int{1, 3} {
		t.Run([]string{1: "one thread", 3: "three threads"}[threads], func(t *testing.T) {
			backendtest.Run(t, func(testing.TB) backend.Backend { return cpu.Open(threads) })
		})
	}
}
