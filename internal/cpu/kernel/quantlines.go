package kernel

// SetPart quantises a part of a line that begins with a group, as Set does. What x
// does not fill of its last group are zeros.
func (q *Quantized) SetPart(line, group int, x []float32) {
	first := line*q.Groups + group
	whole, groups := len(x)/Group, (len(x)+Group-1)/Group
	quantize(whole, x, q.Codes[first*Group:], q.Scales[first:], q.offsets[first:])
	if whole < groups {
		at := first + whole
		q.Scales[at], q.offsets[at] = quantizeGroup(q.Codes[at*Group:][:Group], x[whole*Group:])
	}
	q.widen(first, groups)
}

// CopyLine makes a line equal to a line of other activations as long.
func (q *Quantized) CopyLine(line int, from *Quantized, other int) {
	n := q.Groups
	copy(q.Codes[line*n*Group:][:n*Group], from.Codes[other*n*Group:])
	copy(q.Scales[line*n:][:n], from.Scales[other*n:])
	copy(q.offsets[line*n:][:n], from.offsets[other*n:])
	if widens {
		copy(q.wide[line*n*Group:][:n*Group], from.wide[other*n*Group:])
	}
}
