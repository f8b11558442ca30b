package kvcache

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
)

// Pair lets two pools of one process hand prompts to each other: it compares
// what decides the bytes of a row, and publishes each pool's limit to the
// other. From then on both serve the smaller limit. Pools that differ are an
// error that wraps [ErrPeerMismatch].
func Pair(a, b *Pool) error {
	for _, f := range []struct {
		field string
		same  bool
	}{
		{"Identity", a.cfg.Identity == b.cfg.Identity},
		{"PageSize", a.cfg.PageSize == b.cfg.PageSize},
		{"Checksums", a.cfg.Checksums == b.cfg.Checksums},
		{"pools", a.epoch != b.epoch},
	} {
		if !f.same {
			return fmt.Errorf("%w: %s of the two pools does not fit", ErrPeerMismatch, f.field)
		}
	}
	la, lb := a.Limits().Context, b.Limits().Context
	if err := a.meet(b, lb); err != nil {
		return err
	}
	return b.meet(a, la)
}

func (p *Pool) meet(o *Pool, limit int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrPoolClosed
	}
	p.peers[o.epoch] = o.key
	_, err := p.apply(peer{limit})
	return err
}

// Ticket leases the pages of a Remote request's prompt and says what a peer
// must send. Until [Lease.Commit] or [Lease.Quiesced] the pages stay pinned for
// the peer, even if the request ends.
func (l *Lease) Ticket() (Ticket, error) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	var nonce Nonce
	rand.Read(nonce[:])
	for {
		if l.cause != CauseNone {
			return Ticket{}, l.ended()
		}
		_, err := p.apply(issue{l.id, nonce})
		var short *shortError
		if errors.As(err, &short) {
			p.free(short.pages)
			continue
		}
		if err != nil {
			return Ticket{}, p.flaw(l, err)
		}
		break
	}
	c := p.core.lease(l.id)
	l.ticket = Ticket{
		lease: l.id, nonce: nonce, epoch: p.epoch,
		identity: sha(p.core.identity), scope: l.session.keyed(p.key), private: l.session.scope.Tenant == "",
		tokens: l.prompt, prompt: keyedTokens(p.key, l.known),
		pages: append([]ref(nil), c.table...),
	}
	return l.ticket, nil
}

// keyed digests the tenant for a peer, which knows it by name. Sessions have
// no name that two pools share.
func (s *Session) keyed(key Nonce) Key { return keyed(key, "tenant", []byte(s.scope.Tenant)) }

func keyedTokens(key Nonce, tokens []int32) Key {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = binary.BigEndian.AppendUint32(b, uint32(t))
	}
	return keyed(key, "prompt", b)
}

// Accept admits a peer's prompt to be computed here. The session must be of
// the ticket's tenant, and tokens the prompt that the ticket counts and
// digests. A refusal is terminal: tell the issuer, who ends its request with
// the same error and calls [Lease.Quiesced].
func (s *Session) Accept(ctx context.Context, t Ticket, tokens []int32) (*Lease, error) {
	p := s.pool
	p.mu.Lock()
	key, known := p.peers[t.epoch]
	p.mu.Unlock()
	switch {
	case !known:
		return nil, fmt.Errorf("%w: the ticket is of a pool that was never paired", ErrPeerMismatch)
	case t.identity != sha(p.core.identity):
		return nil, fmt.Errorf("%w: the ticket is for another model or format", ErrPeerMismatch)
	case t.private != (s.scope.Tenant == "") || t.scope != s.keyed(key):
		return nil, handoff("a session of the ticket's tenant", "another")
	case t.tokens != len(tokens):
		return nil, handoff(fmt.Sprintf("%d tokens", t.tokens), fmt.Sprint(len(tokens)))
	case t.prompt != keyedTokens(key, tokens):
		return nil, handoff("the prompt of the ticket", "another")
	}
	l, err := s.Admit(ctx, Request{Tokens: tokens, MaxTokens: 1})
	if err != nil {
		return nil, err
	}
	l.ticket = t
	return l, nil
}

// Send copies the computed prompt of an accepted ticket to its issuer and
// returns the manifest; first is the token sampled after the prompt. On error
// nothing more will be written, and the issuer's pages are let go.
func (l *Lease) Send(to *Pool, first int32) (Manifest, error) {
	t := l.ticket
	m, err := l.send(to, t)
	if err != nil {
		to.quiesce(t)
		return Manifest{}, err
	}
	m.ticket, m.sender, m.first = t, l.pool.epoch, first
	return m, nil
}

func (l *Lease) send(to *Pool, t Ticket) (m Manifest, err error) {
	p := l.pool
	refs, err := l.startCopy(t.tokens)
	if err != nil {
		return m, err
	}
	defer p.endCopy(l)
	var page []byte
	for i, r := range refs {
		page = p.store.Export(page[:0], int(r.page))
		if p.cfg.Checksums {
			m.sums = append(m.sums, p.store.Sum(int(r.page)))
		}
		rows := min(p.cfg.PageSize, t.tokens-i*p.cfg.PageSize)
		if i >= len(t.pages) {
			return m, handoff(fmt.Sprintf("%d pages", len(t.pages)), "more")
		}
		if err := to.receive(t, t.pages[i], int32(rows), page); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (l *Lease) startCopy(tokens int) ([]ref, error) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c := l.live()
	if c == nil {
		return nil, l.ended()
	}
	if int(c.valid) != tokens {
		return nil, p.flaw(l, &IntegrityError{Kind: ErrUnwritten, Position: int(c.valid), Want: fmt.Sprintf("%d rows to send", tokens), Have: fmt.Sprint(c.valid)})
	}
	if _, err := p.apply(copying{l.id}); err != nil {
		return nil, p.flaw(l, err)
	}
	return append([]ref(nil), c.table[:c.pinned[byCopy]]...), nil
}

func (p *Pool) endCopy(l *Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(copied{l.id})
	p.pump()
}

// receive checks a write and does it, in one piece: nothing can end the
// request or lease the page again between the two.
func (p *Pool) receive(t Ticket, r ref, rows int32, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	fx, err := p.apply(write{t.lease, t.nonce, r, rows})
	if err != nil {
		return p.flaw(p.leases[t.lease.request], err)
	}
	return p.store.Import(int(fx.imported), data)
}

// Commit ends a hand-off on the issuer's side. It takes the manifest only if
// every field equals the ticket and every row has arrived; otherwise the
// request fails with an error that wraps [ErrHandoff]. After it, the mark
// stands at the end of the prompt.
func (l *Lease) Commit(m Manifest) error {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.cause != CauseNone {
		return l.ended()
	}
	var sums []uint64
	if p.cfg.Checksums {
		for _, r := range l.ticket.pages {
			sums = append(sums, p.store.Sum(int(r.page)))
		}
	}
	fx, err := p.apply(commit{id: l.id, manifest: m, ticket: l.ticket, sums: sums, tokens: l.known})
	switch {
	case err != nil:
		return p.flaw(l, err)
	case fx.refusal != nil:
		l.err = fx.refusal
		return p.flaw(l, fx.refusal)
	}
	return nil
}

// Quiesced says that the peer has confirmed to write no more under the
// request's ticket. Pages of a request that has ended are freed now, not
// before. Idempotent.
func (l *Lease) Quiesced() { l.pool.quiesce(l.ticket) }

func (p *Pool) quiesce(t Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(quiesced{t.lease, t.nonce})
	p.pump()
}
