package cpu

import (
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
func (b *Backend) sampleOut(k *worker, i int, l []float32) backend.Health {
	s := &b.step.Sampling[i]
	for _, x := range l {
		if !finite(x) && x != negInf { // a bias can do that
			return backend.NonFinite
		}
	}
	id, ok := k.sample(l, s)
	if !ok {
		return backend.NothingAllowed
	}
	logSum := logSumExp(l)
	b.result.ID[i] = id
	b.result.LogProb[i] = float32(float64(l[id]) - logSum)
	if n := min(int(s.Top), len(l)); n > 0 {
		b.result.Top[i] = k.top(l, n, logSum)
	}
	return 0
}

// ranking lists ids by falling logit, equal ones by lower id. It sorts as far as
// it is looked at, which of a vocabulary is seldom far.
type ranking struct {
	keys   []uint64
	sorted int
}

// rankLogits ranks the ids that can be sampled. It is valid until the next top-k.
func (k *worker) rankLogits(l []float32) ranking {
	keys := grow(&k.rank, len(l))[:0]
	for i, x := range l {
		if x > negInf {
			keys = append(keys, rankKey(x, i))
		}
	}
	return ranking{keys: keys}
}

// at returns the id of rank i.
func (r *ranking) at(i int) int32 {
	if i >= r.sorted {
		n := min(len(r.keys), max(64, 4*r.sorted, i+1))
		keepLargest(r.keys[r.sorted:], n-r.sorted)
		slices.Sort(r.keys[r.sorted:n])
		slices.Reverse(r.keys[r.sorted:n])
		r.sorted = n
	}
	return rankedIndex(r.keys[i])
}

// sample draws an id as backend.Sampling documents. ok is false when every
// logit is -inf.
func (k *worker) sample(l []float32, p *backend.Sampling) (id int32, ok bool) {
	best := int32(-1)
	for i, x := range l {
		if x > negInf && (best < 0 || x > l[best]) {
			best = int32(i)
		}
	}
	if best < 0 || p.Temperature == 0 {
		return best, best >= 0
	}
	d := draw{k.rankLogits(l), l, l[best], float64(p.Temperature)}
	n, mass := d.truncate(p)
	u := p.U * mass
	var sum float64
	for i := range n {
		if sum += d.p(i); sum > u {
			return d.at(i), true
		}
	}
	return d.at(n - 1), true
}

// draw gives the ranked ids their exp((l - max) / temperature).
type draw struct {
	ranking
	l           []float32
	max         float32
	temperature float64
}

func (d *draw) exp(x float32) float64 { return math.Exp(float64(x-d.max) / d.temperature) }

func (d *draw) p(i int) float64 { return d.exp(d.l[d.at(i)]) }

// truncate applies top-k, top-p and min-p and returns how many ids are left and
// what their p add up to.
func (d *draw) truncate(p *backend.Sampling) (n int, mass float64) {
	n = len(d.keys)
	if k := int(p.TopK); k > 0 && k < n {
		n = k
		for i := range n {
			mass += d.p(i)
		}
	} else {
		for _, x := range d.l {
			if x > negInf {
				mass += d.exp(x)
			}
		}
	}
	topP := p.TopP > 0 && p.TopP < 1
	if !topP && p.MinP <= 0 {
		return n, mass
	}
	want, floor := math.Inf(1), float64(p.MinP)*d.p(0)
	if topP {
		want = float64(p.TopP) * mass
	}
	mass = 0
	for i := range n {
		q := d.p(i)
		if i > 0 && q < floor {
			return i, mass
		}
		if mass += q; mass >= want {
			return i + 1, mass
		}
	}
	return n, mass
}

func logSumExp(l []float32) float64 {
	m := slices.Max(l)
	return float64(m) + math.Log(kernel.ExpSum(l, m))
}

// top returns the n most likely ids, equal ones by lower id; fewer if fewer can
// be sampled.
func (k *worker) top(l []float32, n int, logSum float64) []backend.TokenProb {
	r := k.rankLogits(l)
	out := make([]backend.TokenProb, min(n, len(r.keys)))
	for i := range out {
		id := r.at(i)
		out[i] = backend.TokenProb{ID: id, LogProb: float32(float64(l[id]) - logSum)}
	}
	return out
}
