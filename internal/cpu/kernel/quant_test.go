package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// quantFormat is a format of quantised weights under test.
type quantFormat struct {
	name    string
	bytes   int // of a group
	lo, hi  int // codes
	pack    func(dst []byte, rows [][]float32) []byte
	mul     func(y []float32, yStride int, w []byte, x *Quantized, line, lines int)
	setCode func(block []byte, r, k, code int)
	code    func(block []byte, r, k int) int
}

var quantFormats = []quantFormat{
	{
		"int4", Int4Bytes, -8, 7, PackInt4, MulInt4,
		func(block []byte, r, k, code int) {
			shift := k / 16 * 4
			b := &block[k%16/4*32+4*r+k%4]
			*b = *b&^(15<<shift) | byte(code+8)<<shift
		},
		func(block []byte, r, k int) int { return int(block[k%16/4*32+4*r+k%4]>>(k/16*4)&15) - 8 },
	},
	{
		"int8", Int8Bytes, -127, 127, PackInt8, MulInt8,
		func(block []byte, r, k, code int) { block[k/4*32+4*r+k%4] = byte(code) },
		func(block []byte, r, k int) int { return int(int8(block[k/4*32+4*r+k%4])) },
	},
}

func (f quantFormat) scale(block []byte, r int) float32 {
	return halfToFloat(binary.LittleEndian.Uint16(block[f.bytes-2*PanelRows+2*r:]))
}

// panel fills a panel with random codes, or with extreme ones.
func (f quantFormat) panel(r *rand.Rand, groups int, extremes bool) []byte {
	w := make([]byte, groups*f.bytes)
	for g := range groups {
		block := w[g*f.bytes:][:f.bytes]
		for row := range PanelRows {
			for k := range Group {
				code := f.lo + r.IntN(f.hi-f.lo+1)
				if extremes {
					code = [2]int{f.lo, f.hi}[(row+k*r.IntN(2))%2]
				}
				f.setCode(block, row, k, code)
			}
			binary.LittleEndian.PutUint16(block[f.bytes-2*PanelRows+2*row:], floatToHalf(float32(math.Exp2(r.Float64()*6-9))))
		}
	}
	return w
}

// lines quantises random lines, or ones whose codes are all extreme.
func quantLinesOf(r *rand.Rand, lines, k int, extremes bool) *Quantized {
	q := new(Quantized)
	q.Resize(lines, k)
	for i := range lines {
		x := random(r, make([]float32, k))
		if extremes {
			for j := range x {
				x[j] = float32(1 - 2*((j*r.IntN(2)+i)%2))
			}
		}
		q.Set(i, x)
	}
	return q
}

// A product is the exact sum of each group, scaled, and the groups added: the
// value from whole numbers in float64 within the roundings of the groups. Four
// lines at a time and each alone give the same bits.
func TestMulQuantized(t *testing.T) {
	for _, f := range quantFormats {
		r := rand.New(rand.NewPCG(1, 3))
		for _, k := range []int{32, 64, 96, 1536, 2048} {
			for _, extremes := range []bool{false, true} {
				for lines := 1; lines <= 9; lines++ {
					t.Run(fmt.Sprintf("%s k=%d lines=%d extremes=%v", f.name, k, lines, extremes), func(t *testing.T) {
						w := readable(t, f.panel(r, k/Group, extremes))
						q := quantLinesOf(r, lines+1, k, extremes)
						q.Codes, q.Scales, q.offsets = readable(t, q.Codes), readable(t, q.Scales), readable(t, q.offsets)
						if widens {
							q.wide = readable(t, q.wide)
						}
						stride := PanelRows + lines%3
						y, intact := banded(t, (lines-1)*stride+PanelRows, 1, float32(poisonFloat))
						f.mul(y, stride, w, q, 1, lines)
						intact()
						for i := range lines {
							for row := range PanelRows {
								var want, size float64
								for g := range k / Group {
									block, at, exact := w[g*f.bytes:], (1+i)*q.Groups+g, 0
									for j := range Group {
										exact += f.code(block, row, j) * int(q.Codes[at*Group+j])
									}
									term := float64(exact) * float64(q.Scales[at]) * float64(f.scale(block, row))
									want += term
									size += math.Abs(term)
								}
								got := y[i*stride+row]
								if math.Abs(float64(got)-want) > float64(k/Group+2)*0x1p-23*size {
									t.Fatalf("line %d row %d: %g, want %g", i, row, got, want)
								}
							}
							alone := make([]float32, PanelRows)
							f.mul(alone, 0, w, q, 1+i, 1)
							for row, v := range alone {
								if v != y[i*stride+row] {
									t.Fatalf("line %d row %d: %g alone, %g among others", i, row, v, y[i*stride+row])
								}
							}
						}
						for at, v := range y {
							if at%stride >= PanelRows && v != poisonFloat {
								t.Fatalf("element %d between the lines was written", at)
							}
						}
					})
				}
			}
		}
	}
}

// A line that is set in parts, or copied, multiplies like one that was set at once.
func TestQuantizedByParts(t *testing.T) {
	const k, lines = 200, 8
	for _, f := range quantFormats {
		r := rand.New(rand.NewPCG(6, 3))
		whole, parts, copies := new(Quantized), new(Quantized), new(Quantized)
		for _, q := range []*Quantized{whole, parts, copies} {
			q.Resize(lines, 4*k) // what was there must not matter
			for i := range lines {
				q.Set(i, random(r, make([]float32, 4*k)))
			}
			q.Resize(lines, k)
		}
		for i := range lines {
			x := random(r, make([]float32, k))
			whole.Set(i, x)
			parts.SetPart(i, 2, x[2*Group:])
			parts.SetPart(i, 0, x[:2*Group])
		}
		for i := range lines {
			copies.CopyLine(lines-1-i, parts, i)
		}
		w := f.panel(r, whole.Groups, false)
		product := func(q *Quantized) []float32 {
			y := make([]float32, lines*PanelRows)
			f.mul(y, PanelRows, w, q, 0, lines)
			return y
		}
		want, inParts, copied := product(whole), product(parts), product(copies)
		for i, v := range want {
			if inParts[i] != v {
				t.Errorf("%s: product %d is %g by parts, %g at once", f.name, i, inParts[i], v)
			}
			if back := copied[(lines-1-i/PanelRows)*PanelRows+i%PanelRows]; back != v {
				t.Errorf("%s: product %d is %g of a copy, %g of the line", f.name, i, back, v)
			}
		}
	}
}

// Rounding to steps loses at most half a step of the group, plus what the scale
// itself lost as a half, unless the element is cut off; padding is zero.
func TestPack(t *testing.T) {
	for _, f := range quantFormats {
		r := rand.New(rand.NewPCG(2, 3))
		for _, k := range []int{1, 31, 32, 33, 100, 256} {
			for count := 1; count <= PanelRows; count++ {
				rows := make([][]float32, count)
				for i := range rows {
					rows[i] = random(r, make([]float32, k))
					if i == 2 {
						clear(rows[i])
					}
				}
				w := f.pack([]byte{1, 2, 3}, rows)[3:]
				groups := (k + Group - 1) / Group
				if len(w) != groups*f.bytes {
					t.Fatalf("%s: %d bytes, want %d", f.name, len(w), groups*f.bytes)
				}
				for row := range PanelRows {
					for j := range groups * Group {
						block := w[j/Group*f.bytes:]
						scale := float64(f.scale(block, row))
						got, want := float64(f.code(block, row, j%Group))*scale, 0.0
						if row < count && j < k {
							want = float64(rows[row][j])
						}
						step := 0.5 + float64(f.hi)*0x1p-11
						if at := want / scale; f.name == "int4" && (at > 7.5 || at < -8.5) {
							// The ends of int4 may be cut off, by less than two steps.
							if got != scale*7 && got != scale*-8 || math.Abs(at) > 9 {
								t.Fatalf("%s: row %d of %d, element %d of %d: %g for %g, scale %g", f.name, row, count, j, k, got, want, scale)
							}
							continue
						}
						if math.Abs(got-want) > step*math.Abs(scale)+1e-12 {
							t.Fatalf("%s: row %d of %d, element %d of %d: %g for %g, scale %g", f.name, row, count, j, k, got, want, scale)
						}
					}
				}
			}
		}
	}
}

// The twins code alike; their sums differ by rounding.
func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	for range 2000 {
		var x [Group]float32
		random(r, x[:])
		inverse := float32(math.Exp2(r.Float64()*8 - 2))
		lowest, highest := float32(-8), float32(7)
		if r.IntN(2) == 0 {
			lowest, highest = -127, 127
		}
		var have, want [Group]int8
		products, squares := encode(&x, inverse, lowest, highest, &have)
		p, s := encodeGroup(&x, inverse, lowest, highest, &want)
		if have != want {
			t.Fatalf("codes %v, want %v", have, want)
		}
		if !near(products, p) || !near(squares, s) {
			t.Fatalf("sums %g, %g, want %g, %g", products, squares, p, s)
		}
	}
}

// The twins find the same element, whatever is among the others.
func TestExtreme(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 5))
	inf := float32(math.Inf(1))
	odd := []float32{0, float32(math.Copysign(0, -1)), 1e-42, -1e-42, 3e38, -3e38, inf, -inf, float32(math.NaN())}
	for i := range 2000 {
		var x [Group]float32
		random(r, x[:])
		for range i % 4 {
			x[r.IntN(Group)] = odd[r.IntN(len(odd))]
		}
		if i%8 == 7 {
			x[r.IntN(Group)] = -extremeGroup(&x)
		}
		if have, want := extreme(&x), extremeGroup(&x); math.Float32bits(have) != math.Float32bits(want) {
			t.Fatalf("%g of %g, want %g", have, x, want)
		}
	}
}

func near(a, b float32) bool { return math.Abs(float64(a-b)) <= 64*0x1p-24*math.Abs(float64(b)) }

func TestQuantized(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, k := range []int{1, 31, 32, 33, 2048} {
		q := new(Quantized)
		q.Resize(3, k)
		x := random(r, make([]float32, k))
		if k > 32 {
			clear(x[:32])
		}
		for i := range q.Codes {
			q.Codes[i] = 99
		}
		q.Set(1, x)
		for j := range q.Groups * Group {
			at := q.Groups + j/Group
			got, want := float64(q.Codes[at*Group+j%Group])*float64(q.Scales[at]), 0.0
			if j < k {
				want = float64(x[j])
			}
			if math.Abs(got-want) > 0.5001*float64(q.Scales[at]) {
				t.Fatalf("k=%d: element %d is %g, want %g, scale %g", k, j, got, want, q.Scales[at])
			}
		}
		if q.Codes[0] != 99 || q.Codes[len(q.Codes)-1] != 99 {
			t.Fatalf("k=%d: another line was written", k)
		}
	}
}

// Both builds quantise alike, bit for bit, at every size of numbers.
func TestQuantizedIsTheTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	for range 3000 {
		groups := 1 + r.IntN(3)
		x := readable(t, random(r, make([]float32, groups*Group)))
		size := float32(math.Exp2(float64(r.IntN(250) - 130)))
		for i := range x {
			x[i] *= size
			switch r.IntN(100) {
			case 0:
				x[i] = 0
			case 1:
				x[i] = float32(r.IntN(127)+1) / 2 * size
			case 2:
				if r.IntN(10) == 0 {
					x[i] = []float32{nan, inf, -inf}[r.IntN(3)]
				}
			}
		}
		q := new(Quantized)
		q.Resize(1, len(x))
		q.Set(0, x)
		for g := range groups {
			var codes [Group]int8
			scale, offset := quantizeGroup(codes[:], x[g*Group:][:Group])
			if codes != [Group]int8(q.Codes[g*Group:]) || ulps(scale, q.Scales[g]) != 0 || offset != q.offsets[g] {
				t.Fatalf("%g: codes %v scale %g offset %#x, want %v, %g, %#x", x[g*Group:][:Group],
					q.Codes[g*Group:][:Group], q.Scales[g], q.offsets[g], codes, scale, offset)
			}
		}
	}
}

// A value that is not finite fails every product of its line and no other.
func TestQuantizedNonFinite(t *testing.T) {
	for _, f := range quantFormats {
		for _, bad := range []float32{nan, inf, -inf} {
			r := rand.New(rand.NewPCG(4, 3))
			q := quantLinesOf(r, 6, 128, false)
			x := random(r, make([]float32, 128))
			x[r.IntN(128)] = bad
			q.Set(2, x)
			y := make([]float32, 6*PanelRows)
			f.mul(y, PanelRows, f.panel(r, 4, false), q, 0, 6)
			for i, v := range y {
				if (v != v) != (i/PanelRows == 2) {
					t.Fatalf("%s: line 2 holds %g, line %d gives %g", f.name, bad, i/PanelRows, v)
				}
			}
		}
	}
}

// Every half converts to a float and back; between two halves the nearer one is
// taken, the even one of two equally near.
func TestHalves(t *testing.T) {
	for h := range 1 << 16 {
		x := halfToFloat(uint16(h))
		if x != x {
			if back := floatToHalf(x); back&0x7c00 != 0x7c00 || back&0x3ff == 0 {
				t.Fatalf("%#x is NaN and comes back as %#x", h, back)
			}
			continue
		}
		if back := floatToHalf(x); back != uint16(h) {
			t.Fatalf("%#x is %g and comes back as %#x", h, x, back)
		}
		if h&0x7fff >= 0x7bff {
			continue
		}
		next := halfToFloat(uint16(h + 1))
		middle := float32((float64(x) + float64(next)) / 2)
		even := uint16(h + h&1)
		for _, c := range []struct {
			x    float32
			want uint16
		}{{middle, even}, {math.Nextafter32(middle, x), uint16(h)}, {math.Nextafter32(middle, next), uint16(h + 1)}} {
			if got := floatToHalf(c.x); got != c.want {
				t.Fatalf("%g between %#x and the next: %#x, want %#x", c.x, h, got, c.want)
			}
		}
	}
	for x, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, 1e30: 0x7c00, -1e30: 0xfc00, inf: 0x7c00} {
		if got := floatToHalf(x); got != want {
			t.Errorf("%g: %#x, want %#x", x, got, want)
		}
	}
}
