package glm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/kvcache"
)

// PoolConfig describes KV memory. Tokens must be set; the rest has defaults.
type PoolConfig struct {
	// Tokens is how many positions the pool holds, rounded up to whole pages of 32.
	Tokens int
	// Context is the longest prompt and output together of one request. 0: the
	// model's. A context that one session could never own in the pool is
	// ErrContextExceedsPool, unless AllowSmallerPool accepts the smaller number,
	// which is then the one in Limits and in force.
	Context          int
	AllowSmallerPool bool
	// Admission Strict, the default, reserves prompt and MaxTokens before any
	// work, and nothing that runs is preempted. Clamp reserves the prompt and
	// one page, and cuts the output to what there is.
	Admission Admission

	// MaxTokens is the output of a request that does not say. 0: 4096, or a
	// quarter of the limit if that is less.
	MaxTokens int
	// Queue is how many requests may wait for room. 0: 64; negative: none.
	Queue int
	// QueueWait is how long a request may wait. 0: 30 seconds.
	QueueWait time.Duration

	// KV is the element type of the rows. 0: f32.
	KV KVFormat
	// Audit receives one record per admission, refusal, end and integrity event.
	// It holds no text and no ids, is called with the pool locked, and must not
	// call the pool.
	Audit slog.Handler
}

// Admission is the policy for output that may not fit.
type Admission = kvcache.Admission

// The policies.
const (
	Strict = kvcache.Strict
	Clamp  = kvcache.Clamp
)

// KVFormat is the element type of KV rows.
type KVFormat = backend.KVFormat

// The formats.
const (
	KVF32  = backend.KVF32
	KVBF16 = backend.KVBF16
)

// Limits is what a pool serves: the numbers checked at start, advertised and
// enforced are these and no others, in tokens.
type Limits = kvcache.Limits

// Limit names the limit that binds.
type Limit = kvcache.Limit

const (
	// pageSize is how many positions a page holds: the grain of prefix reuse,
	// and a multiple of the indexer's pool size.
	pageSize = 32

	defaultMaxTokens = 4096
	defaultQueue     = 64
	defaultQueueWait = 30 * time.Second
)

// KVPool is KV memory that sessions share lawfully. Its methods are safe for
// concurrent use.
type KVPool struct {
	model     *Model
	cache     *kvcache.Pool
	pages     backend.Pages
	maxTokens int
	sched     *scheduler

	mu       sync.Mutex
	sessions map[*Session]struct{}
	closed   error // why, nil while open
	down     chan struct{}
	downErr  error
}

// NewKVPool maps and faults in the memory of a pool, or fails.
func (m *Model) NewKVPool(c PoolConfig) (*KVPool, error) {
	spec, cfg, err := m.poolConfig(c)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrModelClosed
	}
	// The configuration is judged before memory is taken for it.
	memory := &store{}
	cache, err := kvcache.New(cfg, memory)
	if err != nil {
		return nil, poolField(err)
	}
	pages, err := m.device.NewPages(spec)
	if err != nil {
		err = &DeviceError{Op: "map KV memory", Name: fmt.Sprintf("%d pages of %d bytes", spec.Pages, spec.PageBytes()), Err: err}
		return nil, errors.Join(err, cache.Close())
	}
	memory.pages = pages
	pages.Scrub(kvcache.NullPage)
	for i := kvcache.NullPage + 1; i < spec.Pages; i++ { // touches every byte, so that it is there now or never
		scrub(pages, i)
	}
	p := &KVPool{model: m, cache: cache, pages: pages, maxTokens: c.MaxTokens, sessions: map[*Session]struct{}{}, down: make(chan struct{})}
	limit := cache.Limits()
	if p.maxTokens == 0 {
		p.maxTokens = min(defaultMaxTokens, max(limit.Context/4, 1))
	}
	p.sched = newScheduler(p)
	m.pools[p] = struct{}{}
	m.logger.Debug("pool opened", "context", limit.Context, "pool", limit.Pool, "binding", limit.Binding.String(), "pages", spec.Pages)
	return p, nil
}

func (m *Model) poolConfig(c PoolConfig) (backend.PageSpec, kvcache.Config, error) {
	const maxTokens = 1 << 30
	for _, f := range []struct {
		name     string
		value    int
		low, top int
	}{
		{"Tokens", c.Tokens, 1, maxTokens},
		{"Context", c.Context, 0, m.config.MaxPositions},
		{"MaxTokens", c.MaxTokens, 0, maxTokens},
		{"KV", int(c.KV), 0, int(KVBF16)},
	} {
		if f.value < f.low || f.value > f.top {
			return backend.PageSpec{}, kvcache.Config{}, invalid("PoolConfig."+f.name, "is %d, want %d to %d", f.value, f.low, f.top)
		}
	}
	if c.Context == 0 {
		c.Context = m.config.MaxPositions
	}
	if c.KV == 0 {
		c.KV = KVF32
	}
	switch {
	case c.Queue == 0:
		c.Queue = defaultQueue
	case c.Queue < 0:
		c.Queue = 0
	}
	if c.QueueWait == 0 {
		c.QueueWait = defaultQueueWait
	}
	spec := backend.PageSpec{
		Pages:    (c.Tokens+pageSize-1)/pageSize + 1, // and the null page
		PageSize: pageSize, Format: c.KV, Planes: m.graph.Planes,
	}
	cfg := kvcache.Config{
		Pages: spec.Pages, PageSize: pageSize, Context: c.Context, AllowSmallerPool: c.AllowSmallerPool,
		Admission: c.Admission, Queue: c.Queue, QueueWait: c.QueueWait,
		Identity: kvcache.Identity{
			Weights: m.identity.weights, Tokenizer: m.identity.tokenizer, Format: c.KV.String(),
			Geometry: fmt.Sprintf("pages of %d, planes %v", pageSize, spec.Planes),
			Rope:     m.identity.rope, NormEps: m.identity.eps, Numerics: m.identity.numerics,
		},
	}
	if c.Audit != nil {
		cfg.Audit = audit(c.Audit)
	}
	return spec, cfg, nil
}

// poolField turns a configuration error into one that names our field.
func poolField(err error) error {
	if f, ok := errors.AsType[*kvcache.FieldError](err); ok {
		return invalid("PoolConfig."+f.Field, "is %s, want %s", f.Have, f.Want)
	}
	return err
}

// Limits returns the one number that is advertised and enforced, and which
// limit it comes from.
func (p *KVPool) Limits() Limits { return p.cache.Limits() }

// PoolStats counts the pages of a pool and its requests.
type PoolStats = kvcache.Stats

// Stats returns a consistent count.
func (p *KVPool) Stats() PoolStats { return p.cache.Stats() }

// SessionConfig describes a session.
type SessionConfig struct {
	// Tenant is whose text it is. Sessions of one tenant reuse each other's
	// prefixes; a session with the empty tenant shares with nobody.
	Tenant string
	// Label names the session in logs, as it is.
	Label string
}

// NewSession opens a conversation. It holds no memory until it generates.
func (p *KVPool) NewSession(c SessionConfig) (*Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		return nil, p.closed
	}
	inner, err := p.cache.NewSession(c.Tenant)
	if err != nil {
		return nil, err
	}
	s := newSession(p, c, inner)
	p.sessions[s] = struct{}{}
	return s, nil
}

// Generate answers one request in a session of its own: for servers whose
// clients send the whole conversation each time. What a tenant's earlier
// requests computed is reused; the empty tenant reuses nothing.
func (p *KVPool) Generate(ctx context.Context, tenant string, r Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, err := p.NewSession(SessionConfig{Tenant: tenant})
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.Close()
		s.Generate(ctx, r)(yield)
	}
}

// Forget drops everything that was computed for a tenant and returns when it is
// scrubbed. Pages that a running request still reads go when it ends.
func (p *KVPool) Forget(ctx context.Context, tenant string) error {
	switch {
	case ctx == nil:
		return invalid("ctx", "is nil")
	case tenant == "":
		return invalid("tenant", "is empty: what has no tenant is forgotten with its session")
	}
	err := p.cache.Forget(ctx, tenant)
	if err != nil && ctx.Err() != nil {
		return cancelled(ctx)
	}
	return err
}

// Close ends every generation with ErrPoolClosed, waits for the running step
// and unmaps the memory. Idempotent.
func (p *KVPool) Close() error { return p.shut(ErrPoolClosed) }

func (p *KVPool) shut(why error) error {
	p.mu.Lock()
	if p.closed != nil {
		p.mu.Unlock()
		<-p.down
		return p.downErr
	}
	p.closed = why
	sessions := make([]*Session, 0, len(p.sessions))
	for s := range p.sessions {
		sessions = append(sessions, s)
	}
	p.mu.Unlock()
	for _, s := range sessions {
		s.end(why)
	}
	p.sched.stop()
	p.downErr = errors.Join(p.cache.Close(), p.pages.Close())
	p.model.mu.Lock()
	delete(p.model.pools, p)
	p.model.mu.Unlock()
	close(p.down)
	return p.downErr
}

// store lets kvcache move the bytes of a device's pages.
type store struct{ pages backend.Pages }

func (s store) SetTag(page int, tag uint64)        { s.pages.SetTag(page, tag) }
func (s store) Scrub(pages ...int)                 { scrub(s.pages, pages...) }
func (s store) Export(dst []byte, page int) []byte { return s.pages.Export(dst, page) }
func (s store) Import(page int, data []byte) error { return s.pages.Import(page, data) }
func (s store) Sum(page int) uint64                { return s.pages.Sum(page) }

// scrub makes pages unreadable. Tests poison them as well.
var scrub = backend.Pages.Scrub

// audit writes kvcache's records as structured log records.
func audit(h slog.Handler) func(kvcache.Record) {
	return func(r kvcache.Record) {
		rec := slog.NewRecord(time.Now(), slog.LevelInfo, r.Event.String(), 0)
		rec.AddAttrs(
			slog.Uint64("request", r.Request), slog.Uint64("session", r.Session), slog.String("tenant", r.Tenant),
			slog.Int("prompt", r.Prompt), slog.Int("computed", r.Computed), slog.Int("reused", r.Reused), slog.Int("received", r.Received),
			slog.Int("limit", r.Limit.Context), slog.String("binding", r.Limit.Binding.String()),
			slog.Int("reserved", r.Reserved), slog.Int("pages", r.Pages), slog.Uint64("generation", r.Highest),
			slog.String("cause", r.Cause.String()),
		)
		if r.Err != nil {
			rec.AddAttrs(slog.String("error", r.Err.Error()))
		}
		// An audit line that cannot be written has nowhere else to go.
		_ = h.Handle(context.Background(), rec)
	}
}
