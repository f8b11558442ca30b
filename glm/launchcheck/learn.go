package launchcheck

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

const (
	canaries = 12 // ids that only the donor uses
	enough   = 4  // of them must be left once the victims have been heard

	shortOut = 6

	// The output of the long answers: more than a page, and of a fast model so
	// much that two of them meet whichever the machine serves first.
	longOut, longest = 40, 400
	longTime         = 100 * time.Millisecond
)

// learn finds the vocabulary, picks the canaries, and asks for every victim's
// answer in a fresh pool.
func (r *runner) learn() {
	r.vocab = r.countIDs()
	if r.vocab < 8*canaries {
		r.fatal = true
		r.doubt("a vocabulary of %d ids is too small for canaries", r.vocab)
		return
	}
	r.report.Model = fmt.Sprintf("a model of %d ids and context %d", r.vocab, r.context)
	if t := r.m.Tokenizer(); t != nil {
		for _, end := range []string{"<|endoftext|>", "<|user|>", "<|observation|>"} {
			if id, ok := t.ID(end); ok {
				r.bans[id] = float32(math.Inf(-1))
			}
		}
	}
	r.report.Canary = r.pickCanaries()
	r.canary = map[int32]bool{}
	for _, id := range r.report.Canary {
		r.canary[id] = true
	}
	for _, n := range []int{1, r.page - 1, r.page, r.page + 1, 2*r.page - 1, 2 * r.page, 2*r.page + 1, 2*r.page + r.page/2} {
		if n+shortOut <= r.context {
			r.asks = append(r.asks, r.ids(n, shortOut))
		}
	}
	if len(r.asks) < 4 || r.page-2+longOut > r.context {
		r.fatal = true
		r.doubt("a context of %d is too short to check on pages of %d", r.context, r.page)
		return
	}
	if r.answers(); r.doubted() {
		r.fatal = true
		return
	}
	// What a victim says on its own is no sign of a leak. Of the long answers, of
	// which a small vocabulary leaves little over, the hunt itself looks at that.
	for _, a := range r.asks {
		for _, t := range a.want.tokens {
			delete(r.canary, t.ID)
		}
	}
	r.report.Canary = slices.DeleteFunc(r.report.Canary, func(id int32) bool { return !r.canary[id] })
	if t := r.m.Tokenizer(); t != nil {
		for _, id := range r.report.Canary {
			r.report.Words = append(r.report.Words, t.Decode([]int32{id}))
		}
	}
	if len(r.canary) < enough {
		r.fatal = true
		r.doubt("the victims say all but %d of the canaries on their own", len(r.canary))
		return
	}
	out := min(max(int(longTime/r.pace()), longOut), longest, r.context-r.page)
	r.long = []ask{r.ids(r.page-2, out), r.ids(r.page-2, out)}
	r.gift = []ask{r.donation(r.page-2, out)}
	if r.answers(); r.doubted() {
		r.fatal = true
	}
	r.seen("%d prompts, %d canaries, %d ids that end a reply", len(r.asks)+len(r.long), len(r.canary), len(r.bans))
}

// pace is the time that a token takes, of half of those that were heard.
func (r *runner) pace() time.Duration {
	var gaps []time.Duration
	for _, a := range r.asks {
		gaps = append(gaps, a.want.gaps...)
	}
	slices.Sort(gaps)
	return max(gaps[len(gaps)/2], time.Microsecond)
}

// answers hears every victim alone; from the start when an id had to be banned,
// because that changes every distribution.
func (r *runner) answers() {
	for again := true; again && r.ctx.Err() == nil && !r.doubted(); {
		again = false
		for _, list := range [][]ask{r.asks, r.long, r.gift} {
			for i := range list {
				again = again || r.fresh(&list[i])
			}
		}
	}
	if r.ctx.Err() != nil {
		r.doubt("the context ended")
	}
}

// countIDs finds how many ids can be fed.
func (r *runner) countIDs() int {
	takes := func(id int) bool {
		_, err := r.m.Count(glm.Request{Tokens: []int32{int32(id)}})
		return err == nil
	}
	low, high := 0, 1<<30
	for low < high {
		if mid := (low + high) / 2; takes(mid) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// pickCanaries prefers ids that stand for words, so that a person can read them.
func (r *runner) pickCanaries() (ids []int32) {
	word := func(id int32) bool {
		t := r.m.Tokenizer()
		if t == nil || int(id) >= t.Size() {
			return t == nil
		}
		letters := 0
		for _, b := range t.Bytes(id) {
			if b >= 'a' && b <= 'z' {
				letters++
			}
		}
		return letters >= 4 && letters == len(t.Bytes(id))
	}
	for tries := 0; len(ids) < canaries; tries++ {
		id := r.random.Int32N(int32(r.vocab))
		_, ends := r.bans[id]
		if !ends && !slices.Contains(ids, id) && (word(id) || tries > 100*canaries) {
			ids = append(ids, id)
		}
	}
	return ids
}
