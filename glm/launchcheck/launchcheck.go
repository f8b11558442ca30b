package launchcheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/kvcache"
)

// Run checks a model. each, if not nil, is told of every check as it ends. The
// report covers what was reached when ctx ends, and says so as a doubt.
func Run(ctx context.Context, m *glm.Model, each func(Check)) *Report {
	start := time.Now()
	r := &runner{ctx: ctx, m: m, each: each, random: rand.New(rand.NewPCG(2026, 9)), bans: map[int32]float32{}}
	r.guards()
	for _, c := range []struct {
		group, name string
		run         func()
	}{
		{"limits", "a pool below the model's context", r.atStart},
		{"answers", "alone in a fresh pool", r.learn},
		{"limits", "of the pool", r.poolLimit},
		{"limits", "of the configuration", r.contextLimit},
		{"reuse", "pages that the donor left", r.soak},
		{"reuse", "side by side", r.sideBySide},
		{"reuse", "after every kind of end", r.aborts},
		{"queue", "full, and moving", r.queue},
		{"queue", "requeued by another tenant", r.requeue},
		{"prefix", "own pages only, to the token", r.warm},
		{"prefix", "forgotten", r.forget},
		{"text", "a code word of another conversation", r.codeWord},
	} {
		r.check(c.group, c.name, c.run)
	}
	r.report.Elapsed = time.Since(start)
	return &r.report
}

// runner is one run of all checks.
type runner struct {
	ctx    context.Context
	m      *glm.Model
	each   func(Check)
	random *rand.Rand
	report Report

	page    int // positions of a page
	context int // of the model
	vocab   int // ids that can be fed
	bans    map[int32]float32
	canary  map[int32]bool
	asks    []ask // of the victims
	long    []ask // likewise, with output of more than a page
	gift    []ask // of the donor, as long as those
	fatal   bool  // nothing further can be checked
	door    time.Duration

	mu  sync.Mutex
	now Check
}

// check runs one check and files its line.
func (r *runner) check(group, name string, run func()) {
	r.mu.Lock()
	r.now = Check{Group: group, Name: name}
	r.mu.Unlock()
	switch {
	case r.ctx.Err() != nil:
		r.doubt("not looked at: %v", context.Cause(r.ctx))
	case r.fatal:
		r.doubt("not looked at: see the doubts before")
	default:
		run()
	}
	r.mu.Lock()
	c := r.now
	r.mu.Unlock()
	r.report.Checks = append(r.report.Checks, c)
	if r.each != nil {
		r.each(c)
	}
}

func (r *runner) doubt(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Doubts = append(r.now.Doubts, fmt.Sprintf(format, args...))
}

func (r *runner) doubted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.now.Doubts) > 0
}

func (r *runner) seen(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Seen = fmt.Sprintf(format, args...)
}

// guards puts every guard of this build to the test alone.
func (r *runner) guards() {
	for _, t := range kvcache.Drill() {
		name := t.Guard + " alone"
		blind := t.Guard == "none"
		if blind {
			name = "none: the drill can see"
		}
		r.check("guard", name, func() {
			r.seen("no foreign row: %s", t.Story)
			if blind {
				r.seen("foreign rows are read: %s", t.Story)
			}
			switch {
			case t.Err != nil:
				r.doubt("the trial failed: %v", t.Err)
			case t.Foreign > 0:
				r.doubt("%s: %d rows of another tenant were read", t.Story, t.Foreign)
			case t.Stopped != nil:
				r.seen("stopped: %v", t.Stopped)
			}
		})
	}
}

// atStart learns the model's context from the refusal of a pool that is
// smaller: a server with such a pool must not start unasked.
func (r *runner) atStart() {
	r.page = 1 << 20
	p, err := r.m.NewKVPool(glm.PoolConfig{Tokens: 1})
	if err == nil {
		r.page, r.context = p.Limits().Pool, p.Limits().Context
		r.seen("the model's context of %d fits a page", r.context)
		r.fatal = r.context < 8
		p.Close()
		return
	}
	e, ok := errors.AsType[*glm.ContextError](err)
	if !ok || !errors.Is(err, glm.ErrContextExceedsPool) {
		r.fatal = true
		r.doubt("a pool of one page was refused otherwise: %v", err)
		return
	}
	r.page, r.context = e.Pool, e.Prompt
	if e.Max != e.Pool || e.Limit.String() != "pool" {
		r.doubt("the refusal names the limit %d of the %v, want %d of the pool", e.Max, e.Limit, e.Pool)
	}
	p, err = r.m.NewKVPool(glm.PoolConfig{Tokens: 1, AllowSmallerPool: true})
	if err != nil {
		r.fatal = true
		r.doubt("a smaller pool, accepted: %v", err)
		return
	}
	defer p.Close()
	if l := p.Limits(); l.Context != r.page || l.Pool != r.page || l.Prompt != r.page-1 {
		r.doubt("a pool of %d tokens advertises %+v", r.page, l)
	}
	r.seen("context %d refused on %d tokens", r.context, r.page)
}
