package tokenizer

import "unicode/utf8"

// A tokenizer.json writes the bytes of a token as printable characters, the
// byte-level alphabet of GPT-2: the 188 bytes that print in Latin-1 stand for
// themselves, the others, in order, are U+0100 and following (so a space is Ġ).

// byteOf maps a character of the alphabet to its byte, or to -1.
var byteOf = func() (m [0x144]int16) {
	for i := range m {
		m[i] = -1
	}
	next := 0x100
	for b := range 256 {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b {
			m[b] = int16(b)
		} else {
			m[next] = int16(b)
			next++
		}
	}
	return m
}()

// appendByteLevel appends the bytes that the characters of s stand for and
// reports whether all of them are in the alphabet.
func appendByteLevel(dst []byte, s string) ([]byte, bool) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if int(r) >= len(byteOf) || byteOf[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(byteOf[r]))
	}
	return dst, true
}

// byteLevelBytes returns the bytes that s stands for if s is written in the
// alphabet, else "".
func byteLevelBytes(s string) string {
	b, ok := appendByteLevel(nil, s)
	if !ok {
		return ""
	}
	return string(b)
}
