package backendtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// samplingScene adjusts, samples, or both, logits that the test gives.
func samplingScene(vocab int, l func(key) []float32, sampling func(key) backend.Sampling, adjust, sample bool) scene {
	return scene{sampling: sampling, build: func(r *rig) backend.Program {
		b := r.outRows("l", vocab, l, adjust)
		var p backend.Program
		if adjust {
			p = append(p, &backend.AdjustLogits{L: b})
		}
		if sample {
			p = append(p, &backend.Sample{L: b})
		}
		return p
	}}
}

const samplingVocab = 131

// penalties cycles through every adjustment and all of them together.
func penalties(k key) backend.Sampling {
	rng := source("penalties", k.seq, k.pos)
	some := rng.Perm(samplingVocab)
	var s backend.Sampling
	kind := k.pos % 7
	if kind == 1 || kind >= 5 {
		s.Repetition = 1.3
	}
	if kind == 2 || kind >= 5 {
		s.Presence = 0.7
	}
	if kind == 3 || kind >= 5 {
		s.Frequency = 0.21
	}
	for _, id := range some[:20] {
		s.Counts = append(s.Counts, backend.TokenCount{ID: int32(id), Count: 1 + int32(rng.IntN(5))})
	}
	if kind == 4 || kind >= 5 {
		for _, id := range some[10:30] { // ten of them also occurred
			s.Bias = append(s.Bias, backend.TokenBias{ID: int32(id), Bias: float32(rng.NormFloat64() * 3)})
		}
	}
	if kind == 6 {
		s.Mask = make([]uint64, (samplingVocab+63)/64)
		for i := range s.Mask {
			s.Mask[i] = rng.Uint64()
		}
	}
	return s
}

func (s suite) adjustLogits(t *testing.T) {
	l := rows("l", samplingVocab, 3)
	s.laws(t, samplingScene(samplingVocab, l, penalties, true, false), 20)
	for _, c := range []struct {
		name string
		s    backend.Sampling
		want []float32
	}{
		{"Nothing", backend.Sampling{}, []float32{4, -4, 0, 1, negInf}},
		{"RepetitionBySign", backend.Sampling{Repetition: 2, Counts: counts(0, 1, 2, 4)}, []float32{2, -8, 0, 1, negInf}},
		{"RepetitionIgnoresCount", backend.Sampling{Repetition: 2, Counts: []backend.TokenCount{{ID: 3, Count: 7}}}, []float32{4, -4, 0, 0.5, negInf}},
		{"RepetitionOneIsNone", backend.Sampling{Repetition: 1, Counts: counts(0, 1)}, []float32{4, -4, 0, 1, negInf}},
		{"Presence", backend.Sampling{Presence: 0.5, Counts: []backend.TokenCount{{ID: 0, Count: 3}}}, []float32{3.5, -4, 0, 1, negInf}},
		{"PromptOnly", backend.Sampling{Repetition: 2, Presence: 0.5, Frequency: 0.5, Counts: []backend.TokenCount{{ID: 0}}}, []float32{2, -4, 0, 1, negInf}},
		{"Frequency", backend.Sampling{Frequency: 0.5, Counts: []backend.TokenCount{{ID: 0, Count: 3}}}, []float32{2.5, -4, 0, 1, negInf}},
		{"RepetitionBeforePresence", backend.Sampling{Repetition: 2, Presence: 1, Frequency: 1, Counts: counts(0, 1)}, []float32{0, -10, 0, 1, negInf}},
		{"Bias", backend.Sampling{Bias: []backend.TokenBias{{ID: 1, Bias: 6}, {ID: 3, Bias: negInf}}}, []float32{4, 2, 0, negInf, negInf}},
		{"BiasAfterRepetition", backend.Sampling{Repetition: 2, Counts: counts(1), Bias: []backend.TokenBias{{ID: 1, Bias: 10}}}, []float32{4, 2, 0, 1, negInf}},
		{"Mask", backend.Sampling{Mask: []uint64{0b10110}}, []float32{negInf, -4, 0, negInf, negInf}},
		{"MaskAfterBias", backend.Sampling{Bias: []backend.TokenBias{{ID: 0, Bias: 99}}, Mask: []uint64{0b11110}}, []float32{negInf, -4, 0, 1, negInf}},
		{"UnknownIDStaysMinusInf", backend.Sampling{Bias: []backend.TokenBias{{ID: 4, Bias: 1e6}}}, []float32{4, -4, 0, 1, negInf}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := samplingScene(5, constant(4, -4, 0, 1, negInf), func(key) backend.Sampling { return c.s }, true, false)
			o := s.rig(t, sc).play(ragged, variation{})
			for _, k := range ragged.keys() {
				if have := o.rows["l"][k]; !slices.Equal(have, c.want) {
					t.Fatalf("%v = %v, want %v", k, have, c.want)
				}
			}
			o.mustBeHealthy(t)
		})
	}
	t.Run("MaskWords", func(t *testing.T) {
		mask := make([]uint64, 3)
		for _, id := range []int{0, 63, 64, 100, 127, 128, 130} {
			mask[id/64] |= 1 << (id % 64)
		}
		o := s.rig(t, samplingScene(samplingVocab, l, func(key) backend.Sampling { return backend.Sampling{Mask: mask} }, true, false)).play(single, variation{})
		for id, v := range o.rows["l"][key{}] {
			if allowed := mask[id/64]>>(id%64)&1 == 1; (v == negInf) == allowed {
				t.Errorf("id %d: logit %v, allowed %v", id, v, allowed)
			}
		}
	})
}

// counts says that each id occurred once.
func counts(ids ...int32) []backend.TokenCount {
	var out []backend.TokenCount
	for _, id := range ids {
		out = append(out, backend.TokenCount{ID: id, Count: 1})
	}
	return out
}

// methods cycles through the ways to narrow a distribution.
func methods(seed int) func(key) backend.Sampling {
	return func(k key) backend.Sampling {
		rng := source("methods", k.seq, k.pos, seed)
		s := backend.Sampling{Temperature: float32(0.3 + 1.5*rng.Float64()), U: rng.Float64(), Top: int32(rng.IntN(6))}
		switch k.pos % 6 {
		case 0:
			s.Temperature = 0
		case 1:
			s.TopK = 1 + int32(rng.IntN(20))
		case 2:
			s.TopP = float32(rng.Float64())
		case 3:
			s.MinP = float32(0.3 * rng.Float64())
		case 4:
			s.TopK, s.TopP, s.MinP = 1+int32(rng.IntN(40)), float32(0.5+0.5*rng.Float64()), float32(0.1*rng.Float64())
		}
		return s
	}
}

func (s suite) sample(t *testing.T) {
	l := rows("l", samplingVocab, 2)
	s.laws(t, samplingScene(samplingVocab, l, methods(0), false, true), 40)
	t.Run("ManySeeds", func(t *testing.T) {
		for seed := range 40 {
			s.sampledLikeOracle(t, samplingScene(samplingVocab, l, methods(seed), false, true))
		}
	})
	t.Run("AfterAdjustLogits", func(t *testing.T) {
		both := func(k key) backend.Sampling {
			s, m := penalties(k), methods(1)(k)
			s.Temperature, s.U, s.TopK, s.TopP, s.Top = m.Temperature, m.U, m.TopK, m.TopP, m.Top
			return s
		}
		s.sampledLikeOracle(t, samplingScene(samplingVocab, l, both, true, true))
	})
	t.Run("Draw", s.draw)
	t.Run("TopLogProbs", s.topLogProbs)
	t.Run("UnknownIDsNeverSampled", func(t *testing.T) {
		// The 31 valid ids are equally likely; the other hundred are not to be drawn
		// at any u, top-k or temperature.
		row := append(fill(31, 0), fill(100, negInf)...)
		for i := range 40 {
			m := backend.Sampling{Temperature: float32(1 + i*100), TopK: int32(i % 3 * 60), U: []float64{0, 0.5, 0.99, math.Nextafter(1, 0)}[i%4]}
			o := s.rig(t, samplingScene(samplingVocab, constant(row...), func(key) backend.Sampling { return m }, false, true)).play(single, variation{})
			if id := o.lists["id"][key{}][0]; id < 0 || id >= 31 {
				t.Errorf("%+v sampled %d", m, id)
			}
		}
	})
	t.Run("NothingAllowed", func(t *testing.T) {
		bad := key{2, 13}
		masked := func(k key) backend.Sampling {
			if k == bad {
				return backend.Sampling{Temperature: 1, Mask: make([]uint64, 3)}
			}
			return methods(0)(k)
		}
		o := s.failsAlone(t, samplingScene(samplingVocab, l, masked, true, true), bad, backend.NothingAllowed)
		if id := o.lists["id"][bad][0]; id != -1 {
			t.Errorf("sampled %d with everything masked", id)
		}
	})
	t.Run("NaNNeverWins", func(t *testing.T) {
		for _, temperature := range []float32{0, 1} {
			row := []float32{1, nan, 2, nan, 0}
			m := backend.Sampling{Temperature: temperature, U: 0.3}
			o := s.rig(t, samplingScene(5, constant(row...), func(key) backend.Sampling { return m }, false, true)).play(single, variation{})
			id, health := o.lists["id"][key{}][0], o.health[key{}]
			if failed := health == backend.NonFinite && id == -1; !failed && (id < 0 || row[id] != row[id]) {
				t.Errorf("temperature %v sampled %d with health %v", temperature, id, health)
			}
		}
	})
	t.Run("WithoutSampling", func(t *testing.T) {
		sc := samplingScene(5, constant(1, 2, 3, 4, 5), nil, true, true)
		o := s.rig(t, sc).play(ragged, variation{})
		for k, id := range o.lists["id"] {
			if id[0] != -1 || !sameBits(o.rows["l"][k], []float32{1, 2, 3, 4, 5}) {
				t.Errorf("%v sampled %d without parameters", k, id[0])
			}
		}
		o.mustBeClean(t)
		o.mustBeHealthy(t)
	})
}

// sampledLikeOracle compares ids exactly and log-probabilities closely.
func (s suite) sampledLikeOracle(t *testing.T, sc scene) {
	t.Helper()
	have, want := s.rig(t, sc).play(ragged, variation{}), s.reference(t, sc).play(ragged, variation{})
	have.mustBeNear(t, want, 100, sc.format)
	have.mustBeHealthy(t)
	for k, w := range want.top {
		mustHaveTop(t, k, have.top[k], w)
	}
}

func mustHaveTop(t testing.TB, k key, have, want []backend.TokenProb) {
	t.Helper()
	ok := len(have) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = have[i].ID == want[i].ID && math.Abs(float64(have[i].LogProb-want[i].LogProb)) < 1e-5
	}
	if !ok {
		t.Errorf("top of %v = %v, want %v", k, have, want)
	}
}

// draw has distributions whose running sums are exact.
func (s suite) draw(t *testing.T) {
	ln2 := float32(math.Ln2)
	below := func(u float64) float64 { return math.Nextafter(u, 0) }
	// p = 1/8, 1/2, 1/4, 1/8: drawn in the order 1, 2, 0, 3.
	halves := []float32{0, 2 * ln2, ln2, 0}
	for _, c := range []struct {
		name string
		l    []float32
		s    backend.Sampling
		want int32
	}{
		{"GreedyLowestID", []float32{1, 3, 2, 3, 3}, backend.Sampling{U: 0.99}, 1},
		{"GreedyZeroSigns", []float32{-1, float32(math.Copysign(0, -1)), 0}, backend.Sampling{}, 1},
		{"GreedyNegative", []float32{-5, -2, -9, -2}, backend.Sampling{}, 1},
		{"GreedySkipsMinusInf", []float32{negInf, negInf, -1e30, negInf}, backend.Sampling{}, 2},
		{"GreedyIgnoresTruncation", halves, backend.Sampling{TopK: 3, TopP: 0.1, MinP: 0.9, U: 0.99}, 1},
		{"EqualAtZero", fill(4, 1), backend.Sampling{Temperature: 1, U: 0}, 0},
		{"EqualBelowFirst", fill(4, 1), backend.Sampling{Temperature: 1, U: below(0.25)}, 0},
		{"EqualAtFirst", fill(4, 1), backend.Sampling{Temperature: 1, U: 0.25}, 1},
		{"EqualBelowThird", fill(4, 1), backend.Sampling{Temperature: 1, U: below(0.75)}, 2},
		{"EqualAtThird", fill(4, 1), backend.Sampling{Temperature: 1, U: 0.75}, 3},
		{"LastU", fill(4, 1), backend.Sampling{Temperature: 1, U: below(1)}, 3},
		{"LastUSkipsMinusInf", []float32{0, 0, 0, negInf}, backend.Sampling{Temperature: 1, U: below(1)}, 2},
		{"LargestFirst", halves, backend.Sampling{Temperature: 1, U: 0.49}, 1},
		{"SecondLargest", halves, backend.Sampling{Temperature: 1, U: 0.51}, 2},
		{"EqualByLowerID", halves, backend.Sampling{Temperature: 1, U: 0.87}, 0},
		{"Smallest", halves, backend.Sampling{Temperature: 1, U: 0.88}, 3},
		{"TopK", halves, backend.Sampling{Temperature: 1, TopK: 2, U: 0.999}, 2},
		{"TopKRenormalises", halves, backend.Sampling{Temperature: 1, TopK: 2, U: 0.66}, 1},
		{"TopKTiesLowerID", fill(5, 1), backend.Sampling{Temperature: 1, TopK: 2, U: 0.999}, 1},
		{"TopKAboveVocabulary", halves, backend.Sampling{Temperature: 1, TopK: 99, U: 0.999}, 3},
		{"TopPOfTopKNotOfAll", halves, backend.Sampling{Temperature: 1, TopK: 2, TopP: 0.6, U: 0.999}, 1},
		{"TopP", halves, backend.Sampling{Temperature: 1, TopP: 0.7, U: 0.999}, 2},
		{"TopPReachesExactly", fill(4, 1), backend.Sampling{Temperature: 1, TopP: 0.5, U: 0.999}, 1},
		{"TopPKeepsOne", halves, backend.Sampling{Temperature: 1, TopP: 1e-6, U: 0.999}, 1},
		{"TopPOneIsAll", halves, backend.Sampling{Temperature: 1, TopP: 1, U: 0.999}, 3},
		{"MinP", halves, backend.Sampling{Temperature: 1, MinP: 0.4, U: 0.999}, 2},
		{"MinPKeepsEqual", fill(4, 1), backend.Sampling{Temperature: 1, MinP: 1, U: 0.999}, 3},
		{"TemperatureSharpens", halves, backend.Sampling{Temperature: 0.5, U: 0.72}, 1}, // 16 of 22
		{"TemperatureFlattens", halves, backend.Sampling{Temperature: 2, U: 0.42}, 2},   // 2, then 1.41, of 5.41
		{"TemperatureBeforeTopP", halves, backend.Sampling{Temperature: 0.5, TopP: 0.7, U: 0.999}, 1},
		{"LargeLogits", []float32{3e38, -3e38, 0}, backend.Sampling{Temperature: 1, U: 0.999}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := samplingScene(len(c.l), constant(c.l...), func(key) backend.Sampling { return c.s }, false, true)
			o := s.rig(t, sc).play(ragged, variation{})
			for _, k := range ragged.keys() {
				if have := o.lists["id"][k][0]; have != c.want {
					t.Fatalf("%v drew %d, want %d", k, have, c.want)
				}
			}
			o.mustBeHealthy(t)
		})
	}
}

// topLogProbs are those before temperature and truncation; equal ones are
// ordered by lower id, and masked ids are left out.
func (s suite) topLogProbs(t *testing.T) {
	ln2 := math.Ln2
	l := []float32{0, float32(2 * ln2), float32(ln2), 0, negInf}
	for i, c := range []struct {
		s    backend.Sampling
		want []backend.TokenProb
	}{
		{backend.Sampling{Temperature: 0.1, TopK: 1, U: 0.5, Top: 3}, []backend.TokenProb{{ID: 1, LogProb: float32(-ln2)}, {ID: 2, LogProb: float32(-2 * ln2)}, {ID: 0, LogProb: float32(-3 * ln2)}}},
		{backend.Sampling{Top: 4}, []backend.TokenProb{{ID: 1, LogProb: float32(-ln2)}, {ID: 2, LogProb: float32(-2 * ln2)}, {ID: 0, LogProb: float32(-3 * ln2)}, {ID: 3, LogProb: float32(-3 * ln2)}}},
		{backend.Sampling{Temperature: 1}, nil},
		{backend.Sampling{Top: 4, Mask: []uint64{0b00011}}, []backend.TokenProb{{ID: 1, LogProb: float32(math.Log(0.8))}, {ID: 0, LogProb: float32(math.Log(0.2))}}},
		{backend.Sampling{Top: 1, Mask: []uint64{0b11001}}, []backend.TokenProb{{ID: 0, LogProb: float32(-ln2)}}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			sc := samplingScene(5, constant(l...), func(key) backend.Sampling { return c.s }, true, true)
			o := s.rig(t, sc).play(single, variation{})
			mustHaveTop(t, key{}, o.top[key{}], c.want)
			if c.s.Mask == nil {
				mustBe(t, key{}, "log-probability", o.rows["log-probability"][key{}], []float64{-ln2})
			}
		})
	}
}
