package cpu

import (
	"cmp"
	"math"
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

func (b *Backend) runSample(op *backend.Sample) {
	if len(b.step.Sampling) == 0 {
		return
	}
	p := &b.phases.out
	*p = outPhase{b: b, l: b.mat(op.L), sample: true}
	b.eachOut(p)
}

// sampleOut draws the id of out row i from its logits.
func (b *Backend) sampleOut(i int, l []float32) backend.Health {
	s := &b.step.Sampling[i]
	for _, x := range l {
		if !finite(x) && x != negInf { // a bias can do that
			return backend.NonFinite
		}
	}
	id, ok := sample(l, s)
	if !ok {
		return backend.NothingAllowed
	}
	logSum := logSumExp(l)
	b.result.ID[i] = id
	b.result.LogProb[i] = float32(float64(l[id]) - logSum)
	if n := min(int(s.Top), len(l)); n > 0 {
		b.result.Top[i] = top(l, n, logSum)
	}
	return 0
}

// candidate is an id that may be sampled, with exp((l - max) / temperature).
type candidate struct {
	id int32
	p  float64
}

// sample draws an id as backend.Sampling documents. ok is false when every
// logit is -inf.
func sample(l []float32, p *backend.Sampling) (id int32, ok bool) {
	best := int32(-1)
	for i, x := range l {
		if x > negInf && (best < 0 || x > l[best]) {
			best = int32(i)
		}
	}
	if best < 0 || p.Temperature == 0 {
		return best, best >= 0
	}
	var list []candidate
	for i, x := range l {
		if x > negInf {
			list = append(list, candidate{int32(i), math.Exp(float64(x-l[best]) / float64(p.Temperature))})
		}
	}
	slices.SortFunc(list, func(a, c candidate) int {
		if a.p != c.p {
			return cmp.Compare(c.p, a.p)
		}
		return cmp.Compare(a.id, c.id)
	})
	list = truncate(list, p)
	u := p.U * mass(list)
	var sum float64
	for _, c := range list {
		if sum += c.p; sum > u {
			return c.id, true
		}
	}
	return list[len(list)-1].id, true
}

// truncate applies top-k, top-p and min-p to a list sorted by falling p.
func truncate(list []candidate, p *backend.Sampling) []candidate {
	if k := int(p.TopK); k > 0 && k < len(list) {
		list = list[:k]
	}
	if p.TopP > 0 && p.TopP < 1 {
		want := float64(p.TopP) * mass(list)
		var sum float64
		for i, c := range list {
			if sum += c.p; sum >= want {
				list = list[:i+1]
				break
			}
		}
	}
	if p.MinP > 0 {
		floor := float64(p.MinP) * list[0].p
		n := 1
		for n < len(list) && list[n].p >= floor {
			n++
		}
		list = list[:n]
	}
	return list
}

func mass(list []candidate) (sum float64) {
	for _, c := range list {
		sum += c.p
	}
	return sum
}

func logSumExp(l []float32) float64 {
	m := slices.Max(l)
	return float64(m) + math.Log(kernel.ExpSum(l, m))
}

// top returns the n most likely ids, equal ones by lower id; fewer if fewer can
// be sampled.
func top(l []float32, n int, logSum float64) []backend.TokenProb {
	ids := make([]int32, len(l))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, c int32) int { return cmp.Compare(l[c], l[a]) })
	var out []backend.TokenProb
	for _, id := range ids[:n] {
		if l[id] > negInf {
			out = append(out, backend.TokenProb{ID: id, LogProb: float32(float64(l[id]) - logSum)})
		}
	}
	return out
}
