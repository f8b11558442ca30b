package launchcheck

import "github.com/cofferdam-ml/cofferdam/glm"

// poolLimit asks around what one session can own in a pool.
func (r *runner) poolLimit() { r.around(glm.PoolConfig{Tokens: 2 * r.page}, 2*r.page) }

// contextLimit asks around a context that is set below what the pool holds, and
// off every page's end.
func (r *runner) contextLimit() {
	r.around(glm.PoolConfig{Tokens: 3 * r.page, Context: 2*r.page - 7}, 2*r.page-7)
}

// around asks for lengths below, at and above a limit. Above it nothing may be
// computed, and nothing may be left over: neither a request nor a promise.
func (r *runner) around(c glm.PoolConfig, limit int) {
	limit = min(limit, r.context)
	p := r.pool(c)
	if p == nil {
		return
	}
	if l := p.Limits(); l.Context != limit || l.Prompt != limit-1 || l.Output != limit-1 {
		r.doubt("the pool advertises %+v, want %d", l, limit)
	}
	// Rows of the donor lie in every page, and only there.
	r.donate(p, r.donation(limit-2, 2))
	for _, n := range []int{limit - 2, limit - 1} {
		a := r.ids(n, 1)
		if r.fresh(&a); r.doubted() {
			break
		}
		r.judge(p, "at the limit", a, r.generate(r.ctx, p, "victim", a, nil), 0)
	}
	above := [][2]int{
		{limit, 1}, {limit - 1, 2}, {1, limit}, {2 * limit, 1}, {limit + r.page, 4}, {1, 1 << 29},
		{r.context - 1, 1}, {r.context, 1}, {r.context + 1, 1},
	}
	refused := 0
	for _, n := range above {
		if n[0]+n[1] <= limit {
			continue // the model's context is the limit
		}
		refused++
		a := r.ids(n[0], n[1])
		r.refused(p, "above the limit", a, r.generate(r.ctx, p, "victim", a, nil), limit)
		if s := r.rest(p); s.Waiting+s.Reserved+s.Running != 0 {
			r.doubt("%s was refused and left %+v", a.name, s)
			break
		}
	}
	r.settle(p)
	r.seen("limit %d: 2 lengths answered, %d refused without a trace", limit, refused)
}
