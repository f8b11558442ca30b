package kernel

import (
	"encoding/binary"
	"math"
)

// Quantised weights stand in panels of PanelRows rows, group by group along k: the
// codes of a group of all rows, then their scales as IEEE halves. A panel is one
// stream, read from its beginning to its end.
//
// Codes are in chunks of four along k: byte 4r+j of chunk c belongs to row r and
// k = 4c+j. In int4 the low nibbles of chunk c are k = 4c+j, the high ones
// k = 16+4c+j, stored with 8 added.
const (
	PanelRows = 8
	Group     = 32

	Int4Bytes = PanelRows*Group/2 + 2*PanelRows // of one group
	Int8Bytes = PanelRows*Group + 2*PanelRows
)

// Quantized are activation lines as int8 codes in groups of Group, each with its
// scale. An element is its code times its group's scale.
type Quantized struct {
	Groups int       // of a line
	Codes  []int8    // [lines, Groups*Group]
	Scales []float32 // [lines, Groups]

	// offsets undo the 8 that is added to int4 codes: -4 times the sum of the
	// group's codes, in both halves of a word.
	offsets []uint32

	wide []int16 // codes as int8 kernels for several lines want them, if any do
}

// Resize makes room for lines of k elements. Content is lost.
func (q *Quantized) Resize(lines, k int) {
	q.Groups = (k + Group - 1) / Group
	n := lines * q.Groups
	if cap(q.Scales) < n {
		q.Codes, q.Scales, q.offsets = make([]int8, n*Group), make([]float32, n), make([]uint32, n)
		if widens {
			q.wide = make([]int16, n*Group)
		}
	}
	q.Codes, q.Scales, q.offsets = q.Codes[:n*Group], q.Scales[:n], q.offsets[:n]
	if widens {
		q.wide = q.wide[:n*Group]
	}
}

// Set quantises a line: scale = largest magnitude / 127, code = x / scale to the
// nearest even. Missing elements are zeros, and so are groups of nothing but tiny
// ones. A group that holds a NaN or an infinity has the scale NaN, which reaches
// every product.
func (q *Quantized) Set(line int, x []float32) { q.SetPart(line, 0, x) }

// tiny is the largest magnitude of a group that counts as zeros: 127 / tiny must
// be finite.
const tiny = 0x1p-100

// quantizeGroup quantises up to Group elements; it is the plain Go twin.
func quantizeGroup(codes []int8, x []float32) (scale float32, offset uint32) {
	clear(codes)
	var largest float32
	for _, v := range x {
		if v-v != 0 {
			return float32(math.NaN()), 0
		}
		if v < 0 {
			v = -v
		}
		if v > largest {
			largest = v
		}
	}
	if largest < tiny {
		return 0, 0
	}
	inverse, sum := 127/largest, 0
	for i, v := range x {
		codes[i] = nearest(float32(v * inverse)) // not fused with the addition in it
		sum += int(codes[i])
	}
	half := uint32(uint16(-4 * sum))
	return largest / 127, half<<16 | half
}

// nearest rounds to the nearest integer, ties to even: the addition leaves no room
// for a fraction.
func nearest(x float32) int8 {
	const magic = 3 << 22
	return int8(float32(x+magic) - magic)
}

// MulInt4 writes the products of a panel of int4 weights with lines [line,
// line+lines) of x: y[i*yStride+r] for row r. Within a group they are exact;
// groups are scaled and added in order, float(sum) * scale(x) * scale(w).
func MulInt4(y []float32, yStride int, w []byte, x *Quantized, line, lines int) {
	int4Kernels.mul(y, yStride, w[:x.Groups*Int4Bytes], x, line, lines)
}

// MulInt8 is MulInt4 for int8 weights.
func MulInt8(y []float32, yStride int, w []byte, x *Quantized, line, lines int) {
	int8Kernels.mul(y, yStride, w[:x.Groups*Int8Bytes], x, line, lines)
}

type panelKernel func(y []float32, yStride int, w []byte, x *Quantized, line int)

// panelKernels multiply a panel with as many lines as their place says; there is one
// for a single line, and none at some other places.
type panelKernels [7]panelKernel

func (k *panelKernels) mul(y []float32, yStride int, w []byte, x *Quantized, line, lines int) {
	_ = y[(lines-1)*yStride+PanelRows-1]
	for n := len(k) - 1; lines > 0; {
		if n > lines || k[n] == nil {
			n--
			continue
		}
		k[n](y, yStride, w, x, line)
		if line, lines = line+n, lines-n; lines > 0 {
			y = y[n*yStride:]
		}
	}
}

// mulInt4 and mulInt8 are the plain Go twins of the panel kernels.
func mulInt4(y []float32, w []byte, x *Quantized, line int) {
	var sum [PanelRows]float32
	for g := range x.Groups {
		at := line*x.Groups + g
		codes, block := x.Codes[at*Group:(at+1)*Group], w[g*Int4Bytes:]
		for r := range sum {
			exact := 0
			for c := range Group / 8 {
				for j := range 4 {
					b := int(block[32*c+4*r+j])
					exact += (b&15-8)*int(codes[4*c+j]) + (b>>4-8)*int(codes[16+4*c+j])
				}
			}
			sum[r] += float32(float32(float32(exact)*x.Scales[at]) * panelScale(block[PanelRows*Group/2:], r))
		}
	}
	copy(y, sum[:])
}

func mulInt8(y []float32, w []byte, x *Quantized, line int) {
	var sum [PanelRows]float32
	for g := range x.Groups {
		at := line*x.Groups + g
		codes, block := x.Codes[at*Group:(at+1)*Group], w[g*Int8Bytes:]
		for r := range sum {
			exact := 0
			for c := range Group / 4 {
				for j := range 4 {
					exact += int(int8(block[32*c+4*r+j])) * int(codes[4*c+j])
				}
			}
			sum[r] += float32(float32(float32(exact)*x.Scales[at]) * panelScale(block[PanelRows*Group:], r))
		}
	}
	copy(y, sum[:])
}

func panelScale(scales []byte, r int) float32 {
	return halfToFloat(binary.LittleEndian.Uint16(scales[2*r:]))
}
