package launchcheck

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// pool is a pool under suspicion: it knows what should have happened in it, and
// listens to what its audit says has happened.
type pool struct {
	*glm.KVPool
	refusals int    // that must be in the audit
	loose    bool   // requests may have come to their end unheard
	first    func() // called with the pool locked when the first request is admitted

	mu      sync.Mutex
	tenants []string
	answers int // that were whole
	rows    int // of their prompts and of the output that was fed again

	events   map[string]int
	ends     map[uint64]int // terminal records by request; 0: admitted, not yet ended
	ended    int            // by length or stop
	booked   int            // rows that the audit has of those
	computed int            // rows of all
}

// pool opens one; nil after a doubt.
func (r *runner) pool(c glm.PoolConfig) *pool {
	p := &pool{events: map[string]int{}, ends: map[uint64]int{}}
	c.AllowSmallerPool, c.Audit = true, auditor{p}
	if c.QueueWait == 0 {
		c.QueueWait = 24 * time.Hour // the context ends it, slow models are no fault
	}
	var err error
	if p.KVPool, err = r.m.NewKVPool(c); err != nil {
		r.doubt("a pool of %d tokens: %v", c.Tokens, err)
		return nil
	}
	return p
}

// note counts a request, and remembers its tenant, to forget it at the end.
func (r *runner) note(p *pool, tenant string) {
	r.mu.Lock()
	r.now.Asked++
	r.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if tenant != "" && !slices.Contains(p.tenants, tenant) {
		p.tenants = append(p.tenants, tenant)
	}
}

// count adds a whole answer to the accounts: the last token is never fed.
func (p *pool) count(a answer, prompt int) {
	if a.err != nil || len(a.tokens) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	p.rows += prompt + len(a.tokens) - 1
}

// settle closes the books of a pool: it must be at rest, agree with its audit,
// be empty once everybody is forgotten, and hold not a byte of anybody.
func (r *runner) settle(p *pool) {
	if p == nil {
		return
	}
	defer p.Close()
	s := r.rest(p)
	if s.Running+s.Waiting+s.Writable+s.Shared+s.Reserved+s.Quarantined+s.Dirty+s.Integrity != 0 || s.Free+s.Resting != s.Pages {
		r.doubt("the pool is not at rest: %+v", s)
	}
	r.balance(p)
	r.report.Rows += p.computed
	for _, tenant := range p.tenants {
		if err := p.Forget(r.ctx, tenant); err != nil {
			r.doubt("forget: %v", err)
			return
		}
	}
	if s := r.rest(p); s.Free != s.Pages {
		r.doubt("all tenants are forgotten, and the pool holds %+v", s)
	}
	if err := p.Verify(); err != nil {
		r.doubt("memory: %v", err)
	}
}

// balance compares the audit with what was heard.
func (r *runner) balance(p *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events["integrity"] != 0 {
		r.doubt("a guard had to refuse %d reads or writes", p.events["integrity"])
	}
	if p.events["refused"] != p.refusals {
		r.doubt("%d prompts were above the limit, the audit has %d", p.refusals, p.events["refused"])
	}
	for request, n := range p.ends {
		if n != 1 {
			r.doubt("request %d has %s", request, plural(n, "terminal cause", "terminal causes"))
		}
	}
	// What was requeued is computed again, but never less often than once.
	more := p.loose || p.events["requeued"] > 0
	if p.ended < p.answers || p.booked < p.rows || !p.loose && p.ended > p.answers || !more && p.booked > p.rows {
		r.doubt("%d answers have %d rows; the audit has %d with %d rows computed and reused", p.answers, p.rows, p.ended, p.booked)
	}
}

// rest waits for what is on its way back: a stream may end before the step that
// computed for it.
func (r *runner) rest(p *pool) glm.PoolStats {
	for {
		s := p.Stats()
		if s.Running+s.Quarantined+s.Dirty == 0 || r.pause() != nil {
			return s
		}
	}
}

func (r *runner) pause() error {
	time.Sleep(500 * time.Microsecond)
	return r.ctx.Err()
}

// await waits until cond holds; false if over is closed first.
func (r *runner) await(p *pool, over <-chan struct{}, cond func(glm.PoolStats) bool) bool {
	for !cond(p.Stats()) {
		select {
		case <-over:
			return cond(p.Stats())
		default:
		}
		if r.pause() != nil {
			return false
		}
	}
	return true
}

// auditor adds a pool's audit to its books.
type auditor struct{ p *pool }

func (a auditor) Enabled(context.Context, slog.Level) bool { return true }
func (a auditor) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a auditor) WithGroup(string) slog.Handler            { return a }
func (a auditor) Handle(_ context.Context, rec slog.Record) error {
	if f := a.p.first; f != nil && rec.Message == "admitted" {
		a.p.first = nil
		f()
	}
	rows, computed, cause, request := 0, 0, "", uint64(0)
	rec.Attrs(func(at slog.Attr) bool {
		switch at.Key {
		case "computed":
			computed = int(at.Value.Int64())
			rows += computed
		case "reused", "received":
			rows += int(at.Value.Int64())
		case "request":
			request = at.Value.Uint64()
		case "cause":
			cause = at.Value.String()
		}
		return true
	})
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.p.events[rec.Message]++
	switch rec.Message {
	case "admitted":
		a.p.ends[request] += 0
	case "refused", "ended":
		a.p.ends[request]++
	}
	if rec.Message != "ended" {
		return nil
	}
	a.p.computed += computed
	if cause == "length" || cause == "stop" || cause == "tool_calls" {
		a.p.ended++
		a.p.booked += rows
	}
	return nil
}
