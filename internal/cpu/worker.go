package cpu

import "github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"

// worker owns scratch that no other worker touches.
type worker struct {
	weights  []float32 // a decoded block of weights
	panel    [kernel.PanelRows][]float32
	sums     []kernel.Sums // partial sums of its products
	lines    [fewLines][]float32
	tails    [kernel.MaxLines][lanes]float32
	y, y2    []float32 // products
	keys     []float32 // gathered key rows
	vals     []float32 // gathered value rows
	scores   []float32 // of one block of keys, by head
	block    parts     // attention over it
	total    parts     // and over all blocks so far
	expanded expanded  // a head's matrices, keys and values
	four     [groupRows]float32
	rank     []uint64 // candidates of a top-k
	counting []int32  // 0, 1, 2, ...
}

// firstLines lists lines [0, n).
func (w *worker) firstLines(n int) []int32 {
	for i := len(w.counting); i < n; i++ {
		w.counting = append(w.counting, int32(i))
	}
	return w.counting[:n]
}

// grow returns s with length n, reallocating when it is too short.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}
