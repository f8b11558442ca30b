package moe

// Groups lists the slots of each expert: those of expert e are
// Slots[Start[e]:Start[e+1]], ascending.
type Groups struct {
	Start []int32 // [experts+1]
	Slots []int32
}

// Group sorts the choices of a batch by expert. ids is [rows, k]; negative ids
// are left out. g's slices are reused when they are large enough.
func (g *Groups) Group(ids []int32, experts int) {
	g.Start = resize(g.Start, experts+1)
	clear(g.Start)
	n := 0
	for _, e := range ids {
		if e >= 0 {
			g.Start[e+1]++
			n++
		}
	}
	for e := range experts {
		g.Start[e+1] += g.Start[e]
	}
	g.Slots = resize(g.Slots, n)
	// Fill forward using Start[e] as the cursor, then shift it back by one.
	for slot, e := range ids {
		if e >= 0 {
			g.Slots[g.Start[e]] = int32(slot)
			g.Start[e]++
		}
	}
	copy(g.Start[1:], g.Start[:experts])
	g.Start[0] = 0
}

// Of returns the slots of one expert.
func (g *Groups) Of(e int) []int32 { return g.Slots[g.Start[e]:g.Start[e+1]] }

func resize(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}
