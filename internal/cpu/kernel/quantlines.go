package kernel

// SetPart quantises a part of a line that begins with a group, as Set does. What x
// does not fill of its last group are zeros.
func (q *Quantized) SetPart(line, group int, x []float32) {
	at := line*q.Groups + group
	whole := len(x) / Group
	quantize(whole, x, q.Codes[at*Group:], q.Scales[at:], q.offsets[at:])
	if whole*Group < len(x) {
		at += whole
		q.Scales[at], q.offsets[at] = quantizeGroup(q.Codes[at*Group:][:Group], x[whole*Group:])
	}
}

// CopyLine makes a line equal to a line of other activations as long.
func (q *Quantized) CopyLine(line int, from *Quantized, other int) {
	n := q.Groups
	copy(q.Codes[line*n*Group:][:n*Group], from.Codes[other*n*Group:])
	copy(q.Scales[line*n:][:n], from.Scales[other*n:])
	copy(q.offsets[line*n:][:n], from.offsets[other*n:])
}
