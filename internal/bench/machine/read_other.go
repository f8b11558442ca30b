//go:build !amd64

package machine

import "encoding/binary"

// readAll reads a multiple of 4096 bytes.
func readAll(data []byte) float32 {
	var a, b, c, d uint64
	for ; len(data) >= 32; data = data[32:] {
		a ^= binary.LittleEndian.Uint64(data)
		b ^= binary.LittleEndian.Uint64(data[8:])
		c ^= binary.LittleEndian.Uint64(data[16:])
		d ^= binary.LittleEndian.Uint64(data[24:])
	}
	return float32(a ^ b ^ c ^ d)
}

// multiply would do arithmetic at the processor's peak; there is no kernel for it.
func multiply(int) float64 { return 0 }
