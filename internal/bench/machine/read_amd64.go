package machine

//go:noescape
func readAVX(p *byte, n int) float32

// readAll reads a multiple of 4096 bytes.
func readAll(data []byte) float32 { return readAVX(&data[0], len(data)) }

//go:noescape
func multiplyAVX(n int)

// multiply does n rounds of arithmetic at the processor's peak and returns how many
// operations that were.
func multiply(n int) float64 {
	multiplyAVX(n)
	return 192 * float64(n)
}
