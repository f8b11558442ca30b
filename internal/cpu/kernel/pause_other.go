//go:build (!amd64 && !arm64) || purego

package kernel

// Pause is where a spinning thread would ease off; plain Go has no way to.
func Pause(int) {}
