package kvcache

import (
	"fmt"
	"slices"

	"github.com/cofferdam-ml/cofferdam/kvcache/internal/guard"
)

// issue leases the pages that a peer will write, and pins them for it: they
// outlive the request until the peer is known to be quiet.
func (e issue) on(c *core) error {
	l := c.lease(e.id)
	if l == nil || l.phase != phaseLive {
		return ErrEnded
	}
	if !l.remote || l.valid > 0 || len(l.table) > 0 || e.ticket == (Nonce{}) {
		return handoff("a request that waits for its prompt from a peer", "another")
	}
	pages := c.pagesFor(l.prompt)
	if pages > c.s.free.n {
		return &shortError{pages: pages - c.s.free.n}
	}
	for range pages {
		c.take(e.id.slot)
	}
	c.pin(l, byWriter, pages)
	l.ticket = e.ticket
	return nil
}

// write lets rows of one page arrive, in any order of pages. A writer that
// comes late, for a page that has been leased again, is refused.
func (e write) on(c *core) error {
	if e.ref.page <= NullPage || int(e.ref.page) >= len(c.s.pages) {
		return stale(none, "a page", "none")
	}
	l := c.lease(e.id)
	at := -1
	if l != nil && l.phase == phaseLive && l.ticket == e.ticket && l.pinned[byWriter] > 0 {
		at = slices.Index(l.table, e.ref)
	}
	pg := &c.s.pages[e.ref.page]
	size := int32(c.cfg.PageSize)
	if at >= 0 && e.rows > 0 && e.rows <= min(size, l.prompt-int32(at)*size) {
		pg.filled = e.rows
	} else if guard.Gen {
		return stale(at*int(size), "rows of a page under its ticket", fmt.Sprintf("%d rows for generation %d", e.rows, e.ref.gen))
	}
	c.fx.imported = e.ref.page
	return nil
}

// arrived is how many rows came from the peer, from position 0 without a gap.
func (c *core) arrived(l *lease) int32 {
	n, size := int32(0), int32(c.cfg.PageSize)
	for _, r := range l.table {
		n += c.s.pages[r.page].filled
		if n%size != 0 || c.s.pages[r.page].filled == 0 {
			break
		}
	}
	return n
}

// commit ends a hand-off. Whatever the manifest claims, the mark rises only by
// the rows that arrived.
func (e commit) on(c *core) error {
	l := c.lease(e.id)
	if l == nil || l.phase != phaseLive {
		return ErrEnded
	}
	if l.pinned[byWriter] == 0 {
		return handoff("a ticket outstanding", "none")
	}
	if err := c.compare(l, e); err != nil {
		c.fx.refusal = err
		c.finish(e.id.slot, CauseFailed)
		return nil
	}
	rows := c.arrived(l)
	if !guard.Mark {
		rows = l.prompt
	}
	c.unpin(l, byWriter)
	l.ticket = Nonce{}
	l.received += rows
	c.raise(e.id.slot, e.tokens[:rows])
	c.recordLease(AuditCommitted, l)
	return nil
}

// compare checks the manifest against the ticket, the ticket against the
// lease, and both against what is really here.
func (c *core) compare(l *lease, e commit) error {
	if !guard.Hand {
		if e.manifest.ticket.lease.request != l.request {
			return handoff("the request", "another")
		}
		return nil
	}
	switch t := e.ticket; {
	case t.nonce != l.ticket || t.lease != e.id || t.tokens != int(l.prompt) || !slices.Equal(t.pages, l.table):
		return handoff("the ticket of the request", "another")
	case len(e.tokens) != int(l.prompt):
		return handoff(fmt.Sprintf("%d tokens", l.prompt), fmt.Sprint(len(e.tokens)))
	}
	if err := e.ticket.differs(e.manifest); err != nil {
		return err
	}
	if n := c.arrived(l); n != l.prompt {
		return handoff(fmt.Sprintf("%d rows arrived", l.prompt), fmt.Sprint(n))
	}
	if c.cfg.Checksums && guard.Sum && !slices.Equal(e.sums, e.manifest.sums) {
		return handoff("equal page checksums", "others")
	}
	return nil
}

// quiesced lets go of the pages that a peer might have written. Repeating it
// changes nothing.
func (e quiesced) on(c *core) error {
	l := c.lease(e.id)
	if l == nil || l.ticket != e.ticket || l.pinned[byWriter] == 0 {
		return ErrEnded
	}
	if l.phase == phaseLive { // the prompt may be computed here instead
		for _, r := range l.table {
			c.s.pages[r.page].filled = 0
		}
		l.remote = false
	}
	l.ticket = Nonce{}
	c.unpin(l, byWriter)
	return nil
}

func (e copying) on(c *core) error {
	l := c.lease(e.id)
	if l == nil || l.phase != phaseLive {
		return ErrEnded
	}
	// A step writes into the last page, which the copy would read meanwhile.
	if l.valid == 0 || l.pinned[byCopy] > 0 || l.step != 0 {
		return &IntegrityError{Kind: ErrUnwritten, Position: int(l.valid), Want: "written rows, and neither a step nor a copy under way", Have: "none, or one of the two"}
	}
	if err := c.readable(e.id.slot, l); err != nil {
		return err
	}
	c.pin(l, byCopy, c.pagesFor(l.valid))
	return nil
}

func (e copied) on(c *core) error {
	l := c.lease(e.id)
	if l == nil || l.pinned[byCopy] == 0 {
		return ErrEnded
	}
	c.unpin(l, byCopy)
	return nil
}
