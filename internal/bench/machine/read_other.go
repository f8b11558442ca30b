//go:build !amd64

package machine

import "encoding/binary"

// Read reads a multiple of 4096 bytes and returns something of them, which keeps the
// compiler from leaving it out.
func Read(data []byte) float32 {
	var a, b, c, d uint64
	for ; len(data) >= 32; data = data[32:] {
		a ^= binary.LittleEndian.Uint64(data)
		b ^= binary.LittleEndian.Uint64(data[8:])
		c ^= binary.LittleEndian.Uint64(data[16:])
		d ^= binary.LittleEndian.Uint64(data[24:])
	}
	return float32(a ^ b ^ c ^ d)
}

// Multiply would do arithmetic at the processor's peak; there is no kernel for it.
func Multiply(int) float64 { return 0 }
