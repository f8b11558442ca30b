package launchcheck

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// ask is a request with the answer that a fresh pool gives to it.
type ask struct {
	name   string
	r      glm.Request
	prompt int // ids
	want   answer
}

// answer is what came of a request.
type answer struct {
	text   string
	tokens []glm.Token
	finish glm.Finish
	err    error
	gaps   []time.Duration // between tokens
}

// ids makes a request of n ids that are no canary, and out ids of output.
func (r *runner) ids(n, out int) ask {
	ids := make([]int32, n)
	for i := range ids {
		for ok := false; !ok; ok = !r.canary[ids[i]] {
			ids[i] = r.random.Int32N(int32(r.vocab))
		}
	}
	return r.asking(fmt.Sprintf("%d+%d", n, out), ids, out)
}

// donation makes a request of n canaries.
func (r *runner) donation(n, out int) ask {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.report.Canary[r.random.IntN(len(r.report.Canary))]
	}
	return r.asking("donor", ids, out)
}

func (r *runner) asking(name string, ids []int32, out int) ask {
	return ask{name: name, prompt: len(ids), r: glm.Request{Tokens: ids, MaxTokens: out, Sampling: r.sampling()}}
}

// sampling is greedy, never ends before it must, and reports enough of the
// distribution for a foreign row to show.
func (r *runner) sampling() *glm.Sampling {
	return &glm.Sampling{LogProbs: true, TopLogProbs: 8, LogitBias: r.bans}
}

// hear collects a stream. stop, if not nil, is told the number of tokens that
// have come after each, and leaves the stream with false.
func hear(stream iter.Seq2[glm.Event, error], stop func(tokens int) bool) (a answer) {
	var text strings.Builder
	var last time.Time
	defer func() { a.text = text.String() }()
	for ev, err := range stream {
		switch ev := ev.(type) {
		case nil:
			a.err = err
		case glm.TextDelta:
			text.WriteString(ev.Text)
		case glm.ReasoningDelta:
			text.WriteString(ev.Text)
		case glm.Token:
			a.tokens = append(a.tokens, ev)
			if now := time.Now(); last.IsZero() {
				last = now
			} else {
				a.gaps, last = append(a.gaps, now.Sub(last)), now
			}
			if stop != nil && !stop(len(a.tokens)) {
				return a
			}
		case glm.Finish:
			a.finish = ev
		}
	}
	return a
}

// generate asks in a session of its own.
func (r *runner) generate(ctx context.Context, p *pool, tenant string, a ask, stop func(int) bool) answer {
	r.note(p, tenant)
	return hear(p.Generate(ctx, tenant, a.r), stop)
}

// session opens a session, nil after a doubt.
func (r *runner) session(p *pool, tenant string) *glm.Session {
	s, err := p.NewSession(glm.SessionConfig{Tenant: tenant})
	if err != nil {
		r.doubt("a session: %v", err)
	}
	return s
}

// fresh answers a request in a pool that nobody has used, and learns which ids
// end a reply: those are banned, and the answers given so far are void.
func (r *runner) fresh(a *ask) (again bool) {
	rows := a.prompt + a.r.MaxTokens
	p := r.pool(glm.PoolConfig{Tokens: rows, Context: min(rows, r.context)})
	if p == nil {
		return false
	}
	a.want = r.generate(r.ctx, p, "fresh", *a, nil)
	switch f := a.want.finish; {
	case a.want.err != nil:
		r.doubt("%s, alone: %v", a.name, a.want.err)
	case (f.Reason == glm.FinishStop || f.Reason == glm.FinishToolCalls) && len(a.want.tokens) > 0 && len(r.bans) < r.vocab/2 && len(a.r.Tokens) > 0:
		r.bans[a.want.tokens[len(a.want.tokens)-1].ID] = float32(math.Inf(-1))
		again = true
	case f.Reason != glm.FinishLength && len(a.r.Tokens) > 0, f.Usage.Prompt != a.prompt, f.Usage.Cached != 0, f.Usage.Output != len(a.want.tokens):
		r.doubt("%s, alone: %s, %+v for a prompt of %d and %d tokens of output", a.name, f.Reason, f.Usage, a.prompt, len(a.want.tokens))
	}
	p.count(a.want, a.prompt)
	r.settle(p)
	return again
}

// judge compares an answer with the one from the fresh pool.
func (r *runner) judge(p *pool, how string, a ask, have answer, cached int) {
	f := have.finish
	switch {
	case have.err != nil:
		r.doubt("%s, %s: %v", a.name, how, have.err)
		return
	case f.Reason != a.want.finish.Reason || len(have.tokens) != len(a.want.tokens):
		r.doubt("%s, %s: %d tokens and %s, alone %d and %s", a.name, how, len(have.tokens), f.Reason, len(a.want.tokens), a.want.finish.Reason)
	case f.Usage.Prompt != a.prompt || f.Usage.Output != len(have.tokens):
		r.doubt("%s, %s: accounts for %d prompt and %d output tokens, there were %d and %d", a.name, how, f.Usage.Prompt, f.Usage.Output, a.prompt, len(have.tokens))
	case f.Usage.Cached != cached:
		r.doubt("%s, %s: %d tokens were cached, this tenant had computed %d", a.name, how, f.Usage.Cached, cached)
	}
	for i := range min(len(have.tokens), len(a.want.tokens)) {
		if h, w := have.tokens[i], a.want.tokens[i]; h.ID != w.ID || h.LogProb != w.LogProb || !slices.Equal(h.Top, w.Top) {
			r.doubt("%s, %s: token %d is id %d at %v, alone it is id %d at %v, or the runners-up differ", a.name, how, i, h.ID, h.LogProb, w.ID, w.LogProb)
			break
		}
	}
	r.hunt(how, a, have)
	p.count(have, a.prompt)
}

// hunt looks for canaries in an answer, also one that was left early.
func (r *runner) hunt(how string, a ask, have answer) {
	for i, t := range have.tokens {
		if r.canary[t.ID] && !slices.ContainsFunc(a.want.tokens, func(w glm.Token) bool { return w.ID == t.ID }) {
			r.doubt("%s, %s: token %d is the canary %d", a.name, how, i, t.ID)
			return
		}
	}
}

// refused demands that a request was refused with its numbers, before any work.
func (r *runner) refused(p *pool, how string, a ask, have answer, limit int) {
	e, ok := errors.AsType[*glm.ContextError](have.err)
	switch {
	case have.err == nil:
		r.doubt("%s, %s: answered with %d tokens above the limit of %d", a.name, how, len(have.tokens), limit)
	case !ok:
		r.doubt("%s, %s: %v", a.name, how, have.err)
	case e.Prompt != a.prompt || e.Output != a.r.MaxTokens || e.Max != limit:
		r.doubt("%s, %s: refused as %d and %d above %d", a.name, how, e.Prompt, e.Output, e.Max)
	case len(have.tokens) > 0 || have.finish.Reason != "":
		r.doubt("%s, %s: refused after %d tokens and %q", a.name, how, len(have.tokens), have.finish.Reason)
	}
	p.refusals++
}
