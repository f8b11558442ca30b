package tokenizer

// splitPattern is the pre-tokenizer of every GLM vocabulary. Text is cut into its
// matches, leftmost first, and no token ever spans two of them. pieceEnd below is
// this pattern, written out.
const splitPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)` + // contraction
	`|[^\r\n\p{L}\p{N}]?\p{L}+` + // letters, with one mark or blank before them
	`|\p{N}{1,3}` + // digits, three at a time
	`| ?[^\s\p{L}\p{N}]+[\r\n]*` + // marks, with the line ends after them
	`|\s*[\r\n]+` + // blanks up to the last line end of a run
	`|\s+(?!\S)` + // a run of blanks but for its last one
	`|\s+`

// pieceEnd returns the end of the piece that starts at s[p]; p < len(s).
func pieceEnd(s string, p int) int {
	class, n := classAt(s, p)
	q := p + n
	switch class {
	case letter:
		return skip(s, q, letter)
	case number:
		for range 2 {
			if q < len(s) {
				if c, n := classAt(s, q); c == number {
					q += n
				}
			}
		}
		return q
	case mark:
		if s[p] == '\'' {
			if e := contractionEnd(s, p); e > 0 {
				return e
			}
		}
		if q < len(s) {
			if c, n := classAt(s, q); c == letter {
				return skip(s, q+n, letter)
			}
		}
		return skip(s, skip(s, q, mark), lineEnd)
	case blank:
		if q < len(s) {
			switch c, n := classAt(s, q); {
			case c == letter:
				return skip(s, q+n, letter)
			case c == mark && s[p] == ' ':
				return skip(s, skip(s, q+n, mark), lineEnd)
			}
		}
	}
	return blanksEnd(s, p)
}

// skip returns the end of the run of characters of one class that starts at s[p].
func skip(s string, p int, class uint8) int {
	for p < len(s) {
		c, n := classAt(s, p)
		if c != class {
			break
		}
		p += n
	}
	return p
}

// blanksEnd is the last three alternatives: up to the last line end of the run,
// else the whole run if the text ends with it, else all but its last blank (which
// is left for the next word), else the one blank there is.
func blanksEnd(s string, p int) int {
	q, last, line := p, p, 0
	for q < len(s) {
		c, n := classAt(s, q)
		if c < blank {
			break
		}
		last = q
		q += n
		if c == lineEnd {
			line = q
		}
	}
	switch {
	case line > 0:
		return line
	case q < len(s) && last > p:
		return last
	}
	return q
}

// contractionEnd matches the first alternative at the apostrophe s[p] and returns
// its end, or 0. Case folding adds one letter beyond ASCII: U+017F, the long s.
func contractionEnd(s string, p int) int {
	at := func(i int) byte {
		if p+i < len(s) {
			return s[p+i] | 0x20
		}
		return 0
	}
	switch at(1) {
	case 's', 't', 'm', 'd':
		return p + 2
	case 'r', 'v':
		if at(2) == 'e' {
			return p + 3
		}
	case 'l':
		if at(2) == 'l' {
			return p + 3
		}
	case 0xC5 | 0x20:
		if s[p+1:min(p+3, len(s))] == "\u017F" {
			return p + 3
		}
	}
	return 0
}
