package backendtest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// complaints fail a test with the first few of many alike.
type complaints struct {
	t     testing.TB
	where string
	n     int
}

func (c *complaints) add(format string, args ...any) {
	c.t.Helper()
	c.n++
	switch limit := 4; {
	case c.n <= limit:
		c.t.Errorf("%s: %s", c.where, fmt.Sprintf(format, args...))
	case c.n == limit+1:
		c.t.Errorf("%s: and more", c.where)
	}
}

func (k key) String() string { return fmt.Sprintf("sequence %d, position %d", k.seq, k.pos) }

// ordered yields a map's keys in order, so that the first complaint is the first.
func ordered[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.pos, b.pos))
	})
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// mustBeClean fails the test for every place that should not have changed.
func (o *outcome) mustBeClean(t testing.TB) {
	t.Helper()
	c := complaints{t: t, where: o.layout.name}
	for _, s := range o.spoilt {
		c.add("%s", s)
	}
}

// mustBeHealthy fails the test for every row that failed.
func (o *outcome) mustBeHealthy(t testing.TB) {
	t.Helper()
	c := complaints{t: t, where: o.layout.name}
	for _, k := range ordered(o.health) {
		if h := o.health[k]; h != 0 {
			c.add("%v is %v", k, h)
		}
	}
}

// mustEqual compares bits of the given keys.
func (o *outcome) mustEqual(t testing.TB, want *outcome, keys ...key) {
	t.Helper()
	c := complaints{t: t, where: o.layout.name}
	for _, k := range keys {
		for name, rows := range want.rows {
			w, ok := rows[k]
			if h := o.rows[name][k]; ok && !sameBits(h, w) {
				i := 0
				for i < min(len(h), len(w))-1 && math.Float32bits(h[i]) == math.Float32bits(w[i]) {
					i++
				}
				c.add("%s of %v moved: element %d is %v, was %v", name, k, i, h[i:min(i+1, len(h))], w[i:min(i+1, len(w))])
			}
		}
		for name, lists := range want.lists {
			if w, ok := lists[k]; ok && !slices.Equal(o.lists[name][k], w) {
				c.add("%s of %v moved: %v, was %v", name, k, o.lists[name][k], w)
			}
		}
		if o.health[k] != want.health[k] {
			c.add("health of %v moved: %v, was %v", k, o.health[k], want.health[k])
		}
		if !slices.Equal(o.top[k], want.top[k]) {
			c.add("top of %v moved: %v, was %v", k, o.top[k], want.top[k])
		}
	}
}

// unit is the rounding of f32, relative.
const unit = 0x1p-24

// mustBeNear compares every row with the reference. The bound is a number of
// units of the largest element of the reference's row, or of the root mean square
// of all rows if that is larger: the sum of the absolute terms is about that
// large times the root of their number, so f32 sums of a few hundred terms in any
// order stay within ten units or so of it, and a wrong formula does not. A backend
// that rounds its inputs has a larger unit.
//
// Lists are compared as they are. A plane in bf16 must be a correct rounding of
// some value within the bound.
func (o *outcome) mustBeNear(t testing.TB, want *outcome, units float64, format backend.KVFormat) {
	t.Helper()
	c := complaints{t: t, where: o.layout.name}
	for name, rows := range want.rows {
		typical := rootMeanSquare(rows)
		bf16 := format == backend.KVBF16 && strings.HasPrefix(name, "plane ")
		for _, k := range ordered(rows) {
			w, h := rows[k], o.rows[name][k]
			if len(h) != len(w) {
				c.add("%s of %v has %d elements, want %d", name, k, len(h), len(w))
				continue
			}
			bound := units * o.unit * max(largestOf(w), typical)
			for i := range w {
				if !within(h[i], w[i], bound, bf16) {
					c.add("%s of %v, element %d = %v, want %v within %.3g", name, k, i, h[i], w[i], bound)
					break
				}
			}
		}
	}
	for name, lists := range want.lists {
		for _, k := range ordered(lists) {
			if h := o.lists[name][k]; !slices.Equal(h, lists[k]) {
				c.add("%s of %v = %v, want %v", name, k, h, lists[k])
			}
		}
	}
}

// largestOf is the largest finite absolute value.
func largestOf(v []float32) float64 {
	m := 0.0
	for _, x := range v {
		if a := math.Abs(float64(x)); a > m && !math.IsInf(a, 0) {
			m = a
		}
	}
	return m
}

// rootMeanSquare is over the finite elements of all rows.
func rootMeanSquare(rows map[key][]float32) float64 {
	sum, n := 0.0, 1e-300
	for _, row := range rows {
		for _, v := range row {
			if x := float64(v); x-x == 0 {
				sum += x * x
				n++
			}
		}
	}
	return math.Sqrt(sum / n)
}

func within(have, want float32, bound float64, bf16 bool) bool {
	switch {
	case math.IsInf(float64(want), 0):
		return have == want
	case want != want:
		return have != have
	case bf16:
		return have >= roundBF16(float32(float64(want)-bound)) && have <= roundBF16(float32(float64(want)+bound))
	}
	return math.Abs(float64(have)-float64(want)) <= bound
}
