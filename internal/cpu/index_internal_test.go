package cpu

import "testing"

// A context that gets longer by a key a step allocates no new ranking each time.
func TestTopKHasRoom(t *testing.T) {
	k, dst, n := &worker{}, make([]int32, 4), 100
	scores := make([]float32, 200)
	if got := testing.AllocsPerRun(50, func() {
		k.topK(scores[:n], dst)
		n++
	}); got != 0 {
		t.Errorf("%g allocations a step", got)
	}
}
