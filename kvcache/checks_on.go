//go:build cofferdam_invariants

package kvcache

// checkEveryEvent stops the program at the first event after which an
// invariant does not hold.
var checkEveryEvent = true
