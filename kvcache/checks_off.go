//go:build !cofferdam_invariants

package kvcache

// checkEveryEvent makes new pools check their invariants after every event, as
// this package's tests do.
var checkEveryEvent = false
