//go:build !cofferdam_invariants

package kvcache

// checkEveryEvent is set by this package's tests.
var checkEveryEvent = false
