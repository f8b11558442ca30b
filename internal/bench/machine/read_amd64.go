package machine

//go:noescape
func readAVX(p *byte, n int) float32

// Read reads a multiple of 4096 bytes and returns something of them, which keeps the
// compiler from leaving it out.
func Read(data []byte) float32 { return readAVX(&data[0], len(data)) }

//go:noescape
func multiplyAVX(n int)

// Multiply does n rounds of arithmetic at the processor's peak and returns how many
// operations that were.
func Multiply(n int) float64 {
	multiplyAVX(n)
	return 192 * float64(n)
}
