package cpu

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A ranking is the stable sort by falling logit, however far it is looked at, with
// ties, both zeros and ids that cannot be sampled.
func TestRanking(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	var w worker
	for _, n := range []int{1, 2, 63, 64, 65, 300, 5000} {
		for _, distinct := range []int{2, 4, 1 << 30} {
			l := make([]float32, n)
			for i := range l {
				v := r.IntN(distinct)
				l[i] = float32(v) - 1
				switch {
				case v == 0:
					l[i] = negInf
				case v == 1 && r.IntN(2) == 0:
					l[i] = float32(math.Copysign(0, -1))
				}
			}
			var want []int32
			for i, x := range l {
				if x > negInf {
					want = append(want, int32(i))
				}
			}
			slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(l[b], l[a]) })
			rank := w.rankLogits(l)
			if len(rank.keys) != len(want) {
				t.Fatalf("%d ids, want %d", len(rank.keys), len(want))
			}
			for i, id := range want {
				if got := rank.at(i); got != id {
					t.Fatalf("n=%d, %d values: rank %d is id %d, want %d", n, distinct, i, got, id)
				}
			}
		}
	}
}
