package kvcache

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/cofferdam-ml/cofferdam/kvcache/internal/guard"
)

// Pool leases pages to requests. All methods are safe for concurrent use.
type Pool struct {
	cfg   Config
	store Store
	epoch uint64 // random: tells this pool from every other
	key   Nonce  // digests on the tickets that this pool issues

	mu       sync.Mutex
	changed  *sync.Cond // after every event
	core     *core
	leases   map[uint64]*Lease // by request
	sessions map[uint64]*Session
	last     uint64 // session
	queue    queue
	peers    map[uint64]Nonce // epoch -> key of its tickets
	closing  bool
	closed   chan struct{} // the janitor is gone, every page scrubbed
	flaws    int           // integrity errors
	checked  bool          // invariants after every event

	// Events of every turn, here so that they need no memory of their own.
	begin    begin
	grow     grow
	complete complete
	admit    admit
}

// scrubBatch bounds the pages of one Store.Scrub, hence how long a step can
// wait for pages that someone else is scrubbing.
const scrubBatch = 32

// New makes a pool over a store whose pages 1 to Pages-1 are scrubbed. A
// configuration that cannot be is a [*FieldError]; a Context that one session
// could never own is a [*ContextError], unless AllowSmallerPool is set.
func New(cfg Config, store Store) (*Pool, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	var seed [8]byte
	rand.Read(seed[:]) // never fails
	p := &Pool{
		cfg:   cfg,
		store: store,
		// The top bits stay clear: identities count up from here.
		epoch:    binary.LittleEndian.Uint64(seed[:])>>2 | 1,
		leases:   map[uint64]*Lease{},
		sessions: map[uint64]*Session{},
		peers:    map[uint64]Nonce{},
		closed:   make(chan struct{}),
		checked:  checkEveryEvent,
	}
	rand.Read(p.key[:])
	p.changed = sync.NewCond(&p.mu)
	p.core = newCore(cfg, p.epoch)
	go p.janitor()
	return p, nil
}

// Limits returns what the pool serves: the one number that is checked at
// start, advertised and enforced, and where it comes from.
func (p *Pool) Limits() Limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.limits()
}

// apply makes an event happen and does to memory what it asks for. Everything
// but scrubbing is quick and is done here, under the lock.
func (p *Pool) apply(e event) (effects, error) {
	fx, err := p.core.apply(e)
	if p.checked {
		if broken := p.core.check(); broken != nil {
			panic(broken)
		}
	}
	for _, t := range fx.tags {
		p.store.SetTag(int(t.page), t.tag)
	}
	for _, id := range fx.ended {
		p.note(id)
	}
	for _, r := range fx.records {
		p.audit(r)
	}
	for _, r := range fx.sum {
		p.apply(summed{r, p.store.Sum(int(r.page))})
	}
	for _, r := range fx.verify {
		if p.core.known(r) && p.store.Sum(int(r.page)) != p.core.s.pages[r.page].sum {
			p.flaw(nil, stale(none, "the bytes that were sealed", "others"))
			p.apply(corrupt{r})
		}
	}
	p.changed.Broadcast()
	return fx, err
}

// note tells the handle of a request that it ended or was requeued.
func (p *Pool) note(id leaseID) {
	h, l := p.leases[id.request], p.core.lease(id)
	if h == nil || l == nil || l.phase != phaseEnded {
		return
	}
	h.cause = l.cause
	switch l.cause {
	case CauseClosed:
		h.err = ErrSessionClosed
		if p.closing {
			h.err = ErrPoolClosed
		}
	case CauseFailed:
		h.err = stale(none, "the bytes that were sealed", "others")
	}
	if w := p.queue.remove(h); w != nil {
		w.ready <- h.ended()
	}
}

func (p *Pool) audit(r Record) {
	if p.cfg.Audit == nil {
		return
	}
	if s := p.sessions[r.Session]; s != nil {
		r.Tenant = s.digest
	}
	p.cfg.Audit(r)
}

// flaw counts and records an integrity error on its way out.
func (p *Pool) flaw(l *Lease, err error) error {
	if err == nil {
		return nil
	}
	var e *IntegrityError
	if !errors.As(err, &e) {
		return err
	}
	p.flaws++
	r := Record{Event: AuditIntegrity, Err: err, Limit: p.core.limits()}
	if l != nil {
		r.Request, r.Session = l.id.request, l.session.id
	}
	p.audit(r)
	return err
}

// scrub zeroes up to n pages (no more than a batch), evicting what was used
// least recently if too few are dirty. The lock is released meanwhile. It
// reports whether there was anything to do.
func (p *Pool) scrub(n int32) bool {
	fx, _ := p.apply(reclaim{min(n, scrubBatch)})
	if len(fx.scrub) == 0 {
		return false
	}
	if guard.Scrub {
		pages := make([]int, len(fx.scrub))
		for i, r := range fx.scrub {
			pages[i] = int(r.page)
		}
		p.mu.Unlock()
		p.store.Scrub(pages...)
		p.mu.Lock()
	}
	for _, r := range fx.scrub {
		p.apply(scrubbed{r})
	}
	return true
}

// free makes n pages free for a request that was promised them.
func (p *Pool) free(n int32) {
	if !p.scrub(n) {
		p.changed.Wait() // somebody else is scrubbing them
	}
}

// janitor scrubs pages as they are freed, until the pool has closed.
func (p *Pool) janitor() {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(p.closed)
	for {
		switch dirty := p.core.s.dirty.n; {
		case dirty > 0:
			p.scrub(dirty)
		case p.closing && p.idle():
			return
		default:
			p.changed.Wait()
		}
	}
}

// idle reports whether every page is free.
func (p *Pool) idle() bool { return int(p.core.s.free.n) == p.cfg.Pages-1 }

// Close ends every request with [ErrPoolClosed], waits for steps in flight,
// and returns when every page is scrubbed. Idempotent; it must not be called
// between Begin and the end of the step by the goroutine that runs the step.
func (p *Pool) Close() error {
	p.mu.Lock()
	if !p.closing {
		p.closing = true
		p.apply(shut{})
		p.apply(forget{all: true})
		for i := range p.core.s.leases { // from now on every write is refused
			l := &p.core.s.leases[i]
			p.apply(quiesced{leaseID{int32(i), l.request}, l.ticket})
		}
	}
	p.mu.Unlock()
	<-p.closed
	return nil
}

// Stats counts pages by state, and requests.
type Stats struct {
	Pages       int // the null page not counted
	Free        int // scrubbed
	Dirty       int // freed, not yet scrubbed
	Quarantined int // given back, but a step, copy or writer holds them
	Writable    int // owned by one request
	Shared      int // sealed and in use
	Resting     int // sealed and evictable
	Reserved    int // promised, not yet taken
	Running     int // requests
	Waiting     int // requests without pages
	Integrity   int // reads and writes that a guard refused
}

// Stats returns a consistent count.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.core.s
	st := Stats{
		Pages: p.cfg.Pages - 1, Free: int(s.free.n), Dirty: int(s.dirty.n + s.scrubbing),
		Resting: int(s.index.rest.n), Reserved: int(s.reserved), Integrity: p.flaws,
	}
	for i := range s.pages {
		switch s.pages[i].state {
		case pageQuarantined:
			st.Quarantined++
		case pageWritable:
			st.Writable++
		case pageSealed:
			st.Shared++
		}
	}
	st.Shared -= st.Resting
	for i := range s.leases {
		switch s.leases[i].phase {
		case phaseLive:
			st.Running++
		case phaseWaiting:
			st.Waiting++
		}
	}
	return st
}

// Check recounts the whole pool against its invariants and names the first
// that does not hold. It reads every page's record: for tests and diagnosis.
func (p *Pool) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.check()
}

// digest shortens a tenant's name for audit lines.
func digest(tenant string) string {
	if tenant == "" {
		return ""
	}
	k := sha(field(nil, "tenant", []byte(tenant)))
	return hex.EncodeToString(k[:8])
}
