package kvcache

import "context"

// Forget makes everything that a tenant's sessions left in the prefix index
// unfindable at once, and returns when it is scrubbed. Pages that a running
// request still reads are scrubbed when it ends, so a caller who holds such a
// request open waits for itself; the context ends the wait, not the forgetting.
func (p *Pool) Forget(ctx context.Context, tenant string) error {
	if tenant == "" {
		return &FieldError{Field: "tenant", Want: "a name: the empty tenant keeps nothing beyond its session", Have: "none"}
	}
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	scope := Scope{Tenant: tenant}
	before := p.core.unscrubbed(scope)
	if _, err := p.apply(forget{scope: scope}); err != nil {
		return err
	}
	for _, r := range before {
		for p.core.known(r) && p.core.s.pages[r.page].state != pageFree {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.changed.Wait()
		}
	}
	return nil
}

// unscrubbed lists the pages that hold, or may still hold, rows of a scope.
func (c *core) unscrubbed(scope Scope) []ref {
	var refs []ref
	for i := range c.s.pages {
		pg := &c.s.pages[i]
		switch pg.state {
		case pageNull, pageFree, pageWritable:
			continue
		case pageSealed:
			if c.s.index.entries[i].scope != scope {
				continue
			}
		}
		refs = append(refs, ref{int32(i), pg.gen})
	}
	for i := range c.s.leases {
		if l := &c.s.leases[i]; l.scope == scope {
			refs = append(refs, l.table...)
		}
	}
	return refs
}
