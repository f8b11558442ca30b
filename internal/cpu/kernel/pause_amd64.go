//go:build !purego

package kernel

// Pause waits for about as long as n instructions that leave the core to its
// sibling and its power budget to others.
func Pause(n int)
