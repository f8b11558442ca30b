package moe

import "math"

// Route chooses len(ids) experts for one row from its router logits and writes
// their ids in selection order with their weights.
//
//	s = sigmoid(logits); the largest s + bias win, equal ones by lower id
//	weight = s, divided by (sum of the chosen s + 1e-20) when renorm, times scale
//
// A NaN never wins against a number. With fewer usable experts than len(ids)
// the remaining ids are -1 with weight NaN, which fails the row downstream.
//
// Source: DeepSeek-V3 report (arXiv 2412.19437) section 2.1.2, as published in
// the Glm4Moe reference (noaux_tc with one group). scores is scratch of
// len(logits).
func Route(logits, bias []float32, renorm bool, scale float32, ids []int32, weights, scores []float32) {
	for e, l := range logits {
		scores[e] = sigmoid(l)
	}
	k := 0
	for e, s := range scores {
		c := s + bias[e]
		if c != c {
			continue
		}
		// Insertion into the short sorted list; a tie keeps the lower id in front.
		i := min(k, len(ids)-1)
		if k == len(ids) {
			if !(c > scores[ids[i]]+bias[ids[i]]) {
				continue
			}
		} else {
			k++
		}
		for i > 0 && c > scores[ids[i-1]]+bias[ids[i-1]] {
			ids[i] = ids[i-1]
			i--
		}
		ids[i] = int32(e)
	}
	for i := k; i < len(ids); i++ {
		ids[i], weights[i] = -1, float32(math.NaN())
	}
	var sum float32
	for i, id := range ids[:k] {
		weights[i] = scores[id]
		sum += weights[i]
	}
	sum += 1e-20
	for i := range weights[:k] {
		if renorm {
			weights[i] /= sum
		}
		weights[i] *= scale
	}
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
