package kvcache

import "fmt"

// CheckScrubbed reads the bytes of every free page and demands that all are
// zero: what the guard SCRUB promises, looked at in memory rather than in the
// books. The pool is locked meanwhile. An [*IntegrityError] names no content.
func (p *Pool) CheckScrubbed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var data []byte
	for i := p.core.s.free.head; i != none; i = p.core.s.pages[i].next {
		data = p.store.Export(data[:0], int(i))
		for at, b := range data {
			if b != 0 {
				return p.flaw(nil, stale(none, "a free page without content", fmt.Sprintf("byte %d of page %d left over", at, i)))
			}
		}
	}
	return nil
}
