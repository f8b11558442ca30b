package launchcheck

import (
	"fmt"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// warmth is how many tokens of a prompt of n a second asking finds: whole pages,
// and never the last token.
func (r *runner) warmth(n int) int { return (n - 1) / r.page * r.page }

// warm asks the same prompts again and again: a tenant finds exactly its own
// pages, nobody else finds any, and every answer is the same.
func (r *runner) warm() {
	p := r.pool(glm.PoolConfig{Tokens: 16 * r.page})
	if p == nil {
		return
	}
	hits := 0
	asks := r.asks[len(r.asks)/2:]
	for _, a := range asks {
		for _, c := range []struct {
			tenant string
			cached int
		}{{"a", 0}, {"a", r.warmth(a.prompt)}, {"b", 0}, {"", 0}, {"", 0}, {"b", r.warmth(a.prompt)}} {
			r.judge(p, fmt.Sprintf("for tenant %q again", c.tenant), a, r.generate(r.ctx, p, c.tenant, a, nil), c.cached)
			hits += c.cached
		}
	}
	r.privately(p, asks[len(asks)-1])
	r.settle(p)
	r.seen("%d prompts, %d tokens found again by their own tenant, none by another", len(asks), hits)
}

// privately asks twice in one session without a tenant, and in another one.
func (r *runner) privately(p *pool, a ask) {
	first, second := r.session(p, ""), r.session(p, "")
	if first == nil || second == nil {
		return
	}
	defer first.Close()
	defer second.Close()
	for _, c := range []struct {
		how     string
		session *glm.Session
		cached  int
	}{{"first", first, 0}, {"again", first, r.warmth(a.prompt)}, {"in another one", second, 0}} {
		r.note(p, "")
		r.judge(p, "in a session without a tenant, "+c.how, a, hear(c.session.Generate(r.ctx, a.r), nil), c.cached)
	}
}

// forget lets one tenant forget what another has computed as well.
func (r *runner) forget() {
	p := r.pool(glm.PoolConfig{Tokens: 16 * r.page})
	if p == nil {
		return
	}
	a := r.asks[len(r.asks)-1]
	for _, c := range []struct {
		how, tenant string
		cached      int
		forget      string // afterwards
	}{
		{"before", "a", 0, ""}, {"before", "b", 0, "a"},
		{"after a forgot", "a", 0, ""}, {"after a forgot", "b", r.warmth(a.prompt), "b"},
		{"after b forgot", "a", r.warmth(a.prompt), ""}, {"after b forgot", "b", 0, ""},
	} {
		r.judge(p, c.how, a, r.generate(r.ctx, p, c.tenant, a, nil), c.cached)
		if c.forget == "" {
			continue
		}
		if err := p.Forget(r.ctx, c.forget); err != nil {
			r.doubt("forget: %v", err)
		}
		if err := p.Verify(); err != nil {
			r.doubt("memory after %s forgot: %v", c.forget, err)
		}
	}
	r.settle(p)
	r.seen("two tenants, each forgot once, neither for the other")
}
