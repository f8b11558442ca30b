//go:build !purego

package kernel

// Pause waits for about as long as n instructions that empty the pipeline: on
// arm64 the one made for waiting, YIELD, takes no time on most processors.
func Pause(n int)
