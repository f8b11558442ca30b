package backendtest

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// source is a generator seeded by a name and numbers.
func source(label string, n ...int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(label))
	for _, v := range n {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return rand.New(rand.NewPCG(h.Sum64(), 5))
}

// normal fills a row with standard normal values times scale.
func normal(rng *rand.Rand, n int, scale float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64() * scale)
	}
	return out
}

// rows makes the usual content of a buffer: normal values of the given scale,
// seeded by the buffer's name and the row's key.
func rows(label string, cols int, scale float64) func(key) []float32 {
	return func(k key) []float32 { return normal(source(label, k.seq, k.pos), cols, scale) }
}

// storage is how a weight is stored.
type storage struct {
	name  string
	dtype backend.DType
	scale scaling
}

type scaling int

const (
	unscaled scaling = iota
	perBlock
	perRow
)

var (
	asF32     = storage{"F32", backend.F32, unscaled}
	asF16     = storage{"F16", backend.F16, unscaled}
	asBF16    = storage{"BF16", backend.BF16, unscaled}
	asF8Block = storage{"F8 block", backend.F8E4M3, perBlock}
	storages  = []storage{
		asF32, asF16, asBF16, asF8Block, {"F8 row", backend.F8E4M3, perRow},
	}
)

// view makes a random matrix whose products with vectors of unit variance have
// about unit variance. Every scale differs from its neighbours, so that a scale
// of the wrong block or row shows.
func view(label string, rows, cols int, s storage) backend.View {
	rng := source(label, rows, cols, int(s.dtype), int(s.scale))
	v := backend.View{Name: label, Rows: rows, Cols: cols, DType: s.dtype}
	spread := 1 / math.Sqrt(float64(cols))
	if s.scale == unscaled {
		v.Data = encode(normal(rng, rows*cols, spread), s.dtype)
		return v
	}
	v.Data = make([]byte, rows*cols)
	for i := range v.Data {
		v.Data[i] = byte(rng.IntN(0x60)) | byte(rng.IntN(2))<<7 // |w| below 32, subnormals included
	}
	scaleRows, scaleCols := rows, 1
	if s.scale == perBlock {
		scaleRows = (rows + backend.ScaleBlock - 1) / backend.ScaleBlock
		scaleCols = (cols + backend.ScaleBlock - 1) / backend.ScaleBlock
	}
	scales := make([]float32, scaleRows*scaleCols)
	for i := range scales {
		scales[i] = float32(spread * (0.02 + 0.3*rng.Float64()))
	}
	v.Scales = backend.ScalesOf(scaleRows, scaleCols, scales...)
	return v
}

// exact makes an F32 matrix of given values.
func exact(label string, rows, cols int, values ...float32) backend.View {
	return backend.View{Name: label, Rows: rows, Cols: cols, DType: backend.F32, Data: encode(values, backend.F32)}
}

// encode stores values; those of 16 bits are cut, not rounded, which is as good
// for random ones.
func encode(values []float32, d backend.DType) []byte {
	var out []byte
	for _, v := range values {
		bits := math.Float32bits(v)
		switch d {
		case backend.F32:
			out = binary.LittleEndian.AppendUint32(out, bits)
		case backend.BF16:
			out = binary.LittleEndian.AppendUint16(out, uint16(bits>>16))
		case backend.F16:
			out = binary.LittleEndian.AppendUint16(out, cutF16(bits))
		}
	}
	return out
}

// cutF16 keeps ten bits of mantissa; what is too small becomes a subnormal with
// the leading bits, so that subnormals occur.
func cutF16(bits uint32) uint16 {
	sign := uint16(bits >> 16 & 0x8000)
	exp := int(bits>>23&0xff) - 127 + 15
	if exp <= 0 {
		return sign | uint16(bits>>13&0x3ff)
	}
	return sign | uint16(min(exp, 30))<<10 | uint16(bits>>13&0x3ff)
}

// roundBF16 rounds to nearest, ties to even, and widens again.
func roundBF16(v float32) float32 {
	bits := math.Float32bits(v)
	if v != v {
		return v
	}
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// encodeKV stores plane values in a KV format.
func encodeKV(dst []byte, values []float32, f backend.KVFormat) {
	for i, v := range values {
		if f == backend.KVBF16 {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(math.Float32bits(roundBF16(v))>>16))
		} else {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	}
}

func decodeKV(src []byte, f backend.KVFormat) []float32 {
	out := make([]float32, len(src)/f.Size())
	for i := range out {
		if f == backend.KVBF16 {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		} else {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
	return out
}

var (
	nan    = float32(math.NaN())
	posInf = float32(math.Inf(1))
	negInf = float32(math.Inf(-1))
)

// poison is what no operation may read: a NaN with a payload of its own.
var poison = math.Float32frombits(0x7fc0beef)

func fill(n int, v float32) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = v
	}
	return out
}
