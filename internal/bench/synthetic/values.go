package synthetic

import (
	"hash/fnv"
	"math"
	"strings"
	"sync"
)

const (
	// GroupLen is how many neighbours along a row share a scale.
	GroupLen = 32
	// Unit is the step that scales are multiples of. It gives weights a standard
	// deviation near 1/45, so that rows of 500 to 10,000 of them keep activations
	// near one.
	Unit = 1.0 / 2048
	// EmbeddingUnit is Unit for the embedding, whose rows must be as large as what
	// layers add to them: else all tokens would look alike and choose the same experts.
	EmbeddingUnit = 32 * Unit

	tableGroups = 1_048_573 // prime
	minScale    = 8         // scales are 8 to 15 units: value*2048 has seven bits
)

// A Group is the values of GroupLen neighbours: element i is (code - 8) * Scale * Unit.
type Group struct {
	Unit float32
	// Nibbles holds the codes: element i < 16 in the low half of byte i, element
	// i >= 16 in the high half of byte i-16.
	Nibbles []byte
	Scale   int
}

// Code returns the code of element i, from 0 to 15.
func (g Group) Code(i int) int { return int(g.Nibbles[i%16]>>(i/16*4)) & 15 }

// Float returns the value that a code stands for.
func (g Group) Float(code int) float32 { return float32((code-8)*g.Scale) * g.Unit }

// table returns the nibbles and scales of all groups.
var table = sync.OnceValues(func() (nibbles, scales []byte) {
	nibbles, scales = make([]byte, 16*tableGroups), make([]byte, tableGroups)
	for i := range tableGroups {
		r := mix(uint64(i))
		scales[i] = byte(minScale + r&7)
		lowest := int(r >> 3 & 31) // the element that is -8
		for half := range 2 {
			word := mix(r + uint64(half) + 1)
			for j := range 8 {
				b := byte(word >> (8 * j))
				if b&0x0f == 0 {
					b |= 0x08
				}
				if b&0xf0 == 0 {
					b |= 0x80
				}
				at := 8*half + j
				switch {
				case at == lowest:
					b &= 0xf0
				case at == lowest-16:
					b &= 0x0f
				}
				nibbles[16*i+at] = b
			}
		}
	}
	return nibbles, scales
})

// A Matrix is the values that belong to a name, [Rows, Cols], Cols a multiple of
// GroupLen.
type Matrix struct {
	Rows, Cols int
	first      int
	unit       float32
}

// MatrixOf returns the matrix of a name.
func MatrixOf(name string, rows, cols int) Matrix {
	m := Matrix{rows, cols, int(nameHash(name) % tableGroups), Unit}
	if strings.HasSuffix(name, "embed_tokens.weight") {
		m.unit = EmbeddingUnit
	}
	return m
}

// Slice returns rows [r0, r1).
func (m Matrix) Slice(r0, r1 int) Matrix {
	return Matrix{r1 - r0, m.Cols, (m.first + r0*m.Groups()) % tableGroups, m.unit}
}

// Groups returns how many groups a row has.
func (m Matrix) Groups() int { return m.Cols / GroupLen }

// Group returns group g of row r.
func (m Matrix) Group(r, g int) Group {
	nibbles, scales := table()
	at := (m.first + r*m.Groups() + g) % tableGroups
	return Group{m.unit, nibbles[16*at:][:16], int(scales[at])}
}

// At returns one element.
func (m Matrix) At(r, c int) float32 {
	g := m.Group(r, c/GroupLen)
	return g.Float(g.Code(c % GroupLen))
}

// Row fills dst, of length Cols, with row r.
func (m Matrix) Row(dst []float32, r int) {
	for g := range m.Groups() {
		group := m.Group(r, g)
		out := dst[g*GroupLen:][:GroupLen]
		for j, b := range group.Nibbles {
			out[j], out[16+j] = group.Float(int(b&15)), group.Float(int(b>>4))
		}
	}
}

// Vector returns the values of a norm or bias: norms near one, an indexer's bias
// near zero, a router's near seven, as large as published ones. All but a router's
// are exact in bfloat16.
func Vector(name string, n int) []float32 {
	v := make([]float32, n)
	seed := nameHash(name)
	for i := range v {
		u := float64(mix(seed+uint64(i))>>11)/(1<<52) - 1 // in [-1, 1)
		switch {
		case strings.HasSuffix(name, "e_score_correction_bias"):
			v[i] = float32(7 + 0.1*u)
		case strings.HasSuffix(name, ".bias"):
			v[i] = truncate(0.1 * u)
		default:
			v[i] = truncate(1 + 0.1*u)
		}
	}
	return v
}

// truncate drops what bfloat16 does not hold.
func truncate(x float64) float32 {
	return math.Float32frombits(math.Float32bits(float32(x)) & 0xffff0000)
}

func nameHash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return mix(h.Sum64())
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
