package tokenizer

// A Decoder turns ids into text one at a time. Tokens may end in the middle of a
// character; the Decoder holds such bytes back until the character is complete.
// Bytes that can no longer become a character are written as U+FFFD, one for
// each maximal part of a well-formed sequence: the rule of the WHATWG and of
// Unicode chapter 3.9, and what the reference tokenizers do. So the text of a
// stream does not depend on how it was cut.
//
// A Decoder is for one goroutine. It never allocates, apart from growing dst.
type Decoder struct {
	t      *Tokenizer
	held   [3]byte // the beginning of a character
	n      uint8   // bytes in held
	need   uint8   // continuation bytes still missing; 0 if nothing is held
	lo, hi byte    // range the next continuation byte must be in
}

// NewDecoder returns a Decoder at the start of a stream.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Append adds the text that id completes to dst and returns the extended slice.
// What it adds is always valid UTF-8, and may be nothing. Ids without a token
// add nothing.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	token := d.t.Bytes(id)
	if d.need == 0 && d.t.isText(id) {
		return append(dst, token...)
	}
	for _, b := range token {
		dst = d.step(dst, b)
	}
	return dst
}

// Flush ends the stream: it adds U+FFFD to dst if the stream stopped in the
// middle of a character. The Decoder is then ready for another stream.
func (d *Decoder) Flush(dst []byte) []byte {
	if d.need > 0 {
		dst = append(dst, replacement...)
	}
	d.n, d.need = 0, 0
	return dst
}

const replacement = "\uFFFD"

// step is one transition of the UTF-8 decoding automaton, table 3-7 of the
// Unicode standard.
func (d *Decoder) step(dst []byte, b byte) []byte {
	if d.need > 0 {
		if d.lo <= b && b <= d.hi {
			if d.need--; d.need > 0 {
				d.held[d.n] = b
				d.n++
				d.lo, d.hi = 0x80, 0xBF
				return dst
			}
			dst = append(dst, d.held[:d.n]...)
			d.n = 0
			return append(dst, b)
		}
		// b does not continue the character: what is held never will be one.
		dst = append(dst, replacement...)
		d.n, d.need = 0, 0
	}
	d.lo, d.hi = 0x80, 0xBF
	switch {
	case b < 0x80:
		return append(dst, b)
	case b < 0xC2 || b > 0xF4: // continuation, overlong, or beyond U+10FFFF
		return append(dst, replacement...)
	case b < 0xE0:
		d.need = 1
	case b < 0xF0:
		d.need = 2
		switch b {
		case 0xE0: // overlong below
			d.lo = 0xA0
		case 0xED: // surrogates above
			d.hi = 0x9F
		}
	default:
		d.need = 3
		switch b {
		case 0xF0: // overlong below
			d.lo = 0x90
		case 0xF4: // beyond U+10FFFF above
			d.hi = 0x8F
		}
	}
	d.held[0], d.n = b, 1
	return dst
}
