package glm

import "errors"

// Verify recounts the pool against the invariants of package kvcache, and reads
// every free page: none may still hold a byte of what was computed in it. It
// stops the pool while it looks, so it is for the start of a server, for tests
// and for diagnosis. Package launchcheck calls it.
func (p *KVPool) Verify() error {
	return errors.Join(p.cache.Check(), p.cache.CheckScrubbed())
}
