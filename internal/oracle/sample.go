package oracle

import (
	"math"
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// outRows yields each out row that is alive: its index among the out rows and
// the row of the step.
func (p *pass) outRows(yield func(o, r int)) {
	alive := map[int]bool{}
	for _, r := range p.live {
		alive[r] = true
	}
	for o, r := range p.step.Out {
		if alive[int(r)] {
			yield(o, int(r))
		}
	}
}

// logits computes W n for the out rows. Ids that the tokenizer does not know cannot be chosen,
// whatever their weights say; a non-finite value elsewhere fails the row.
func (p *pass) logits(op *backend.Logits) {
	p.outRows(func(o, r int) {
		l := p.times(op.Head, p.row(op.N, r))
		if !finite(l[:min(op.Valid, len(l))]) {
			p.fail(r, backend.NonFinite)
		}
		for id := op.Valid; id < len(l); id++ {
			l[id] = math.Inf(-1)
		}
		p.put(op.Dst, o, l, false)
	})
}

// adjustLogits applies, in this order: repetition, presence and frequency
// penalties of the ids that occurred, the biases, the mask.
func (p *pass) adjustLogits(op *backend.AdjustLogits) {
	if len(p.step.Sampling) == 0 {
		return
	}
	p.outRows(func(o, _ int) { adjust(p.row(op.L, o), &p.step.Sampling[o]) })
}

func adjust(l []float64, s *backend.Sampling) {
	known := func(id int32) bool { return id >= 0 && int(id) < len(l) }
	for _, c := range s.Counts {
		if !known(c.ID) {
			continue
		}
		if rep := float64(s.Repetition); rep != 0 && l[c.ID] > 0 {
			l[c.ID] /= rep
		} else if rep != 0 {
			l[c.ID] *= rep
		}
		if c.Count > 0 {
			l[c.ID] -= float64(s.Presence) + float64(s.Frequency)*float64(c.Count)
		}
	}
	for _, b := range s.Bias {
		if known(b.ID) {
			l[b.ID] += float64(b.Bias)
		}
	}
	if s.Mask == nil {
		return
	}
	for id := range l {
		if id/64 >= len(s.Mask) || s.Mask[id/64]>>(id%64)&1 == 0 {
			l[id] = math.Inf(-1)
		}
	}
}

// sample draws one id per out row. A row that failed before draws none.
func (p *pass) sample(op *backend.Sample) {
	if len(p.step.Sampling) == 0 {
		return
	}
	p.outRows(func(o, r int) {
		l, s := p.row(op.L, o), &p.step.Sampling[o]
		best := finiteMax(l)
		switch {
		case p.result.Health[r] != 0:
			return
		case hasNaN(l) || math.IsInf(best, 1):
			p.fail(r, backend.NonFinite)
			return
		case math.IsInf(best, -1):
			p.fail(r, backend.NothingAllowed)
			return
		}
		order := largest(l, len(l))
		logprob := logSoftmax(l)
		for _, id := range order[:min(int(s.Top), len(order))] {
			if !math.IsInf(l[id], -1) {
				p.result.Top[o] = append(p.result.Top[o], backend.TokenProb{ID: int32(id), LogProb: float32(logprob[id])})
			}
		}
		id := order[0]
		if s.Temperature != 0 {
			id = draw(l, s)
		}
		p.result.ID[o] = int32(id)
		p.result.LogProb[o] = float32(logprob[id])
	})
}

// draw narrows the distribution and picks by its running sum.
func draw(l []float64, s *backend.Sampling) int {
	scaled := make([]float64, len(l))
	for i := range l {
		scaled[i] = l[i] / float64(s.Temperature)
	}
	p := softmax(scaled)

	keep := largest(p, len(p))
	keep = slices.DeleteFunc(keep, func(id int) bool { return p[id] == 0 })
	if s.TopK > 0 {
		keep = keep[:min(int(s.TopK), len(keep))]
	}
	if s.TopP > 0 && s.TopP < 1 {
		kept := 0.0
		for _, id := range keep {
			kept += p[id]
		}
		keep = keep[:reach(p, keep, float64(s.TopP)*kept)]
	}
	for i, id := range keep {
		if p[id] < float64(s.MinP)*p[keep[0]] {
			keep = keep[:i]
			break
		}
	}

	total := 0.0
	for _, id := range keep {
		total += p[id]
	}
	sum := 0.0
	for _, id := range keep {
		sum += p[id] / total
		if sum > s.U {
			return id
		}
	}
	return keep[len(keep)-1] // the sum rounded to just below U
}

// reach returns how many ids of a list it takes for their probabilities to sum
// to at least target, or all of them.
func reach(p []float64, ids []int, target float64) int {
	sum := 0.0
	for i, id := range ids {
		sum += p[id]
		if sum >= target {
			return i + 1
		}
	}
	return len(ids)
}

// logSoftmax computes x_i - max - log(sum of e^(x - max)).
func logSoftmax(x []float64) []float64 {
	best := finiteMax(x)
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - best)
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v - best - math.Log(sum)
	}
	return y
}

func hasNaN(x []float64) bool {
	for _, v := range x {
		if math.IsNaN(v) {
			return true
		}
	}
	return false
}
