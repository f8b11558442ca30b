package moe

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func route(logits, bias []float32, k int, renorm bool, scale float32) ([]int32, []float32) {
	ids, w := make([]int32, k), make([]float32, k)
	Route(logits, bias, renorm, scale, ids, w, make([]float32, len(logits)))
	return ids, w
}

func TestRouteBiasChoosesButDoesNotWeigh(t *testing.T) {
	// Sigmoids .5, .731, .269; the bias lifts expert 2 above expert 0.
	ids, w := route([]float32{0, 1, -1}, []float32{7, 7, 7.5}, 2, true, 2.5)
	if diff := cmp.Diff([]int32{2, 1}, ids); diff != "" {
		t.Fatal(diff)
	}
	a, b := 1/(1+math.E), math.E/(1+math.E)
	for i, want := range []float64{2.5 * a / (a + b), 2.5 * b / (a + b)} {
		if math.Abs(float64(w[i])-want) > 1e-6 {
			t.Errorf("weight %d is %v, want %v", i, w[i], want)
		}
	}
}

func TestRouteTiesGoToTheLowerID(t *testing.T) {
	ids, _ := route([]float32{1, 2, 2, 2, 1}, make([]float32, 5), 4, false, 1)
	if diff := cmp.Diff([]int32{1, 2, 3, 0}, ids); diff != "" {
		t.Fatal(diff)
	}
}

func TestRouteNaNNeverWins(t *testing.T) {
	nan := float32(math.NaN())
	ids, _ := route([]float32{nan, -5, nan, -6}, make([]float32, 4), 2, true, 1)
	if diff := cmp.Diff([]int32{1, 3}, ids); diff != "" {
		t.Fatal(diff)
	}
	ids, w := route([]float32{nan, 1, nan}, make([]float32, 3), 2, true, 1)
	if ids[0] != 1 || ids[1] != -1 || w[1] == w[1] {
		t.Fatalf("one usable expert of two: ids %v, weights %v", ids, w)
	}
}

// The insertion list must agree with sorting everything.
func TestRouteEqualsSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "experts")
		k := rapid.IntRange(1, n).Draw(t, "k")
		gen := rapid.Float32Range(-2, 2)
		if rapid.Bool().Draw(t, "coarse") { // many ties
			gen = rapid.Map(rapid.IntRange(-1, 1), func(i int) float32 { return float32(i) })
		}
		logits := rapid.SliceOfN(gen, n, n).Draw(t, "logits")
		bias := rapid.SliceOfN(gen, n, n).Draw(t, "bias")
		ids, _ := route(logits, bias, k, true, 1)
		want := make([]int32, n)
		for i := range want {
			want[i] = int32(i)
		}
		choice := func(e int32) float32 { return sigmoid(logits[e]) + bias[e] }
		sort.SliceStable(want, func(a, b int) bool { return choice(want[a]) > choice(want[b]) })
		if diff := cmp.Diff(want[:k], ids); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestGroup(t *testing.T) {
	var g Groups
	for range 2 { // the second pass reuses the slices
		g.Group([]int32{3, 0, 1, 1, 0, 3, -1, 2}, 2, []int32{0, 2, 3}, 5) // row 1 is padding
		got := [][]int32{}
		for e := range 5 {
			got = append(got, slices.Clone(g.Of(e)))
		}
		want := [][]int32{{1, 4}, {}, {7}, {0, 5}, {}}
		for e := range want {
			if !slices.Equal(got[e], want[e]) {
				t.Fatalf("expert %d has slots %v, want %v", e, got[e], want[e])
			}
		}
	}
}
