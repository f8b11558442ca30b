//go:build cofferdam_invariants

package kvcache

// checkEveryEvent makes new pools stop the program at the first event after
// which an invariant does not hold.
var checkEveryEvent = true
