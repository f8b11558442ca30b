package moe

// Groups lists the slots of each expert: those of expert e are
// Slots[Start[e]:Start[e+1]], ascending.
type Groups struct {
	Start []int32 // [experts+1]
	Slots []int32
}

// Group sorts the choices of a batch by expert. ids is [R, k]; rows lists the
// rows that take part, ascending. Negative ids are left out. g's slices are
// reused when they are large enough.
func (g *Groups) Group(ids []int32, k int, rows []int32, experts int) {
	g.Start = resize(g.Start, experts+1)
	clear(g.Start)
	n := 0
	for _, r := range rows {
		for _, e := range ids[int(r)*k : (int(r)+1)*k] {
			if e >= 0 {
				g.Start[e+1]++
				n++
			}
		}
	}
	for e := range experts {
		g.Start[e+1] += g.Start[e]
	}
	g.Slots = resize(g.Slots, n)
	// Fill forward using Start[e] as the cursor, then shift it back by one.
	for _, r := range rows {
		for slot := int(r) * k; slot < (int(r)+1)*k; slot++ {
			if e := ids[slot]; e >= 0 {
				g.Slots[g.Start[e]] = int32(slot)
				g.Start[e]++
			}
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
