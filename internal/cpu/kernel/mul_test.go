package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// lengths along k: one step, every remainder of the unrolled loops, beyond a page.
var lengths = []int{8, 16, 24, 32, 40, 56, 64, 72, 128, 136, 256, 1032, 2048}

// within checks products against their value in float64: the stated bound allows
// each of two builds half.
func within(t *testing.T, what string, sums Sums, w, x []float32) {
	t.Helper()
	var want, size float64
	for k := range x {
		p := float64(w[k]) * float64(x[k])
		want += p
		size += math.Abs(p)
	}
	var got [1]float32
	sum4(got[:], 0, []Sums{sums})
	bound := float64(len(x)/Lanes+8) * 0x1p-24 * size
	if d := math.Abs(float64(got[0]) - want); !(d <= bound) {
		t.Fatalf("%s: %g, want %g within %g", what, got[0], want, bound)
	}
}

// Each product is a running sum of the lanes in ascending k: with whole numbers
// that f32 holds exactly, both builds must give the very sums.
func exactSums(w, x []float32) (s Sums) {
	for k := range x {
		s[k%Lanes] += w[k] * x[k]
	}
	return s
}

func wholeNumbers(r *rand.Rand, x []float32) []float32 {
	for i := range x {
		x[i] = float32(r.IntN(31) - 15)
	}
	return x
}

func TestMulF32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, k := range lengths {
		for lines := 1; lines <= MaxLines; lines++ {
			for _, pad := range []int{0, 3} {
				t.Run(fmt.Sprintf("k=%d lines=%d pad=%d", k, lines, pad), func(t *testing.T) {
					stride := k + pad
					w := readable(t, random(r, make([]float32, (Rows-1)*stride+k)))
					x := make([][]float32, lines)
					for i := range x {
						x[i] = readable(t, random(r, make([]float32, k)))
					}
					acc, intact := banded(t, lines*Rows, pad, Sums{poisonFloat})
					clear(acc)
					MulF32(acc, 0, w, stride, 1, x)
					intact()
					for i, line := range x {
						for n := range Rows {
							within(t, fmt.Sprintf("line %d row %d", i, n), acc[i*Rows+n], w[n*stride:][:k], line)
						}
					}

					// Cut in two, and each line alone: the same bits.
					cut := k / 2 / Lanes * Lanes
					for i, line := range x {
						alone := make([]Sums, Rows)
						MulF32(alone, 0, w, stride, 1, [][]float32{line[:cut]})
						MulF32(alone, 0, w[cut:], stride, 1, [][]float32{line[cut:]})
						for n, s := range alone {
							if s != acc[i*Rows+n] {
								t.Fatalf("line %d row %d: %v alone and cut, %v together", i, n, s, acc[i*Rows+n])
							}
						}
					}

					// The order of lanes and what acc held count.
					wholeNumbers(r, w)
					for i := range x {
						wholeNumbers(r, x[i])
					}
					for i := range acc {
						acc[i] = Sums{0: float32(i)}
					}
					MulF32(acc, 0, w, stride, 1, x)
					for i, line := range x {
						for n := range Rows {
							want := exactSums(w[n*stride:][:k], line)
							want[0] += float32(i*Rows + n)
							if acc[i*Rows+n] != want {
								t.Fatalf("line %d row %d: sums %v, want %v", i, n, acc[i*Rows+n], want)
							}
						}
					}
				})
			}
		}
	}
}

// Several groups at a time give the bits of each alone, and touch nothing between
// their sums.
func TestMulF32Groups(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for groups := 1; groups <= 5; groups++ {
		for lines := 1; lines <= MaxLines; lines++ {
			const k = 72
			stride, each := k+3, lines*Rows+2
			w := readable(t, random(r, make([]float32, (groups*Rows-1)*stride+k)))
			x := make([][]float32, lines)
			for i := range x {
				x[i] = readable(t, random(r, make([]float32, k)))
			}
			acc, intact := banded(t, (groups-1)*each+lines*Rows, 1, Sums{poisonFloat})
			for i := range acc {
				random(r, acc[i][:])
			}
			want := append([]Sums(nil), acc...)
			MulF32(acc, each, w, stride, groups, x)
			intact()
			for g := range groups {
				MulF32(want[g*each:], 0, w[g*Rows*stride:], stride, 1, x)
			}
			for i := range acc {
				if acc[i] != want[i] {
					t.Fatalf("%d groups, %d lines: sums %d are %v, alone %v", groups, lines, i, acc[i], want[i])
				}
			}
		}
	}
}

// bf16s fills rows of k random bfloat16 values, stride bytes apart.
func bf16s(r *rand.Rand, k, stride int) []byte {
	out := make([]byte, (Rows-1)*stride+2*k)
	for n := range Rows {
		for i := range k {
			bits := math.Float32bits(float32(r.NormFloat64()))
			binary.LittleEndian.PutUint16(out[n*stride+2*i:], uint16(bits>>16))
		}
	}
	return out
}

// Weights that are multiplied as stored give the bits of decoded ones.
func TestMulBF16(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for _, k := range lengths {
		for lines := 1; lines <= MaxLines; lines++ {
			for _, pad := range []int{0, 1} {
				stride := 2*k + pad
				w := readable(t, bf16s(r, k, stride))
				x := make([][]float32, lines)
				for i := range x {
					x[i] = readable(t, random(r, make([]float32, k)))
				}
				acc, intact := banded(t, lines*Rows, pad, Sums{poisonFloat})
				want := make([]Sums, lines*Rows)
				for i := range acc {
					random(r, acc[i][:])
				}
				copy(want, acc)
				MulBF16(acc, w, stride, x)
				intact()
				decoded := make([]float32, Rows*k)
				for n := range Rows {
					DecodeBF16(decoded[n*k:][:k], w[n*stride:])
				}
				MulF32(want, 0, decoded, k, 1, x)
				for i := range acc {
					if acc[i] != want[i] {
						t.Fatalf("k=%d, product %d of %d lines: sums %v, decoded %v", k, i, lines, acc[i], want[i])
					}
				}
			}
		}
	}
}

// Products of FP8 weights are those of decoded ones, bit for bit, for every number
// of lines, along every length, with scales by block or by row. A NaN among the
// codes reaches the products of its row and no other.
func TestMulF8(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, nan := range []bool{false, true} {
		for k := StepF8; k <= 2112; k += StepF8 * (1 + k/256) {
			for lines := 1; lines <= MaxLinesF8; lines++ {
				for _, perRow := range []bool{false, true} {
					what := fmt.Sprintf("k=%d lines=%d per row %v NaN %v", k, lines, perRow, nan)
					stride := k + 5
					w := make([]byte, (Rows-1)*stride+k)
					for i := range w {
						for w[i] = byte(r.Uint32()); w[i]&0x7f == 0x7f; w[i] = byte(r.Uint32()) {
						}
					}
					bad := r.IntN(Rows)
					if nan {
						w[bad*stride+r.IntN(k)] = 0x7f | byte(r.IntN(2))<<7
					}
					w = readable(t, w)
					s := Scales{BlockStep: 1}
					blocks := (k + ScaleBlock - 1) / ScaleBlock
					if perRow {
						s, blocks = Scales{RowStep: 1}, Rows
					}
					s.Values = readable(t, random(r, make([]float32, blocks)))
					x := make([][]float32, lines)
					for i := range x {
						x[i] = readable(t, random(r, make([]float32, k)))
					}
					decoded := make([]float32, Rows*k)
					for n := range Rows {
						for b := 0; b*ScaleBlock < k; b++ {
							from, to := b*ScaleBlock, min(k, (b+1)*ScaleBlock)
							DecodeF8(decoded[n*k+from:n*k+to], w[n*stride+from:], s.at(n, b))
						}
					}

					acc, intact := banded(t, lines*Rows, 1, Sums{poisonFloat})
					clear(acc)
					MulF8(acc, w, stride, s, x)
					for i := range acc {
						var out [1]float32
						sum4(out[:], 0, acc[i:i+1])
						if isNaN := out[0] != out[0]; isNaN != (nan && i%Rows == bad) {
							t.Fatalf("%s: product %d is %g", what, i, out[0])
						}
						if !nan {
							within(t, what, acc[i], decoded[i%Rows*k:][:k], x[i/Rows])
						}
						random(r, acc[i][:])
					}
					want := append([]Sums(nil), acc...)
					MulF8(acc, w, stride, s, x)
					intact()
					for i, line := range x {
						MulF32(want[i*Rows:], 0, decoded, k, 1, [][]float32{line})
					}
					for i := range acc {
						for j := range Lanes {
							a, b := acc[i][j], want[i][j]
							if a != b && (a == a || b == b) {
								t.Fatalf("%s: product %d lane %d: %g, decoded %g", what, i, j, a, b)
							}
						}
					}
				}
			}
		}
	}
}

func TestSum4(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for _, n := range []int{4, 8, 12, 64} {
		flat := readable(t, make([]Sums, n))
		for i := range flat {
			random(r, flat[i][:])
		}
		stride := 4 + n%3
		out, intact := banded(t, (n/4-1)*stride+4, 1, float32(poisonFloat))
		Sum4(out, stride, flat)
		intact()
		for i, a := range flat {
			var want float32
			for j, v := range a {
				if j == 0 {
					want = v
				} else {
					want += v
				}
			}
			if got := out[i/4*stride+i%4]; got != want {
				t.Fatalf("sum %d of %d: %g, want %g", i, n, got, want)
			}
		}
	}
}
