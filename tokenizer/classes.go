package tokenizer

import "unicode/utf8"

// The classes that the split pattern tells apart. Line ends are blanks too.
const (
	mark    = iota // none of the others; also every byte that is not UTF-8
	letter         // \p{L}
	number         // \p{N}
	blank          // \s without the line ends
	lineEnd        // \r \n
	other          // in asciiClass: the byte begins something longer
)

// Which characters are letters is part of the vocabulary: a tokenizer that moves
// to a newer Unicode than the one its model was trained with gives other ids. So
// the classes are pinned (classRuns) and not those of package unicode.

// A classRun is a run of code points of one class; it ends where the next begins.
type classRun struct {
	first rune
	class uint8
}

// classBlocks has the classes of code points in blocks of 256, blockOf says which
// block is whose. The first blocks are those of one class throughout, which most
// share.
var blockOf, classBlocks = func() (index [0x1100]uint16, blocks [][256]uint8) {
	blocks = make([][256]uint8, 0, 138)
	for class := range uint8(other) {
		var uniform [256]uint8
		for i := range uniform {
			uniform[i] = class
		}
		blocks = append(blocks, uniform)
	}
	runs := classRuns[:]
	for i := range index {
		from, to := rune(i)<<8, rune(i+1)<<8
		for len(runs) > 1 && runs[1].first <= from {
			runs = runs[1:]
		}
		if len(runs) == 1 || runs[1].first >= to {
			index[i] = uint16(runs[0].class)
			continue
		}
		var block [256]uint8
		for cp, rest := from, runs; cp < to; cp++ {
			if len(rest) > 1 && rest[1].first == cp {
				rest = rest[1:]
			}
			block[cp-from] = rest[0].class
		}
		index[i] = uint16(len(blocks))
		blocks = append(blocks, block)
	}
	return index, blocks
}()

// asciiClass has the classes of bytes that are characters.
var asciiClass = func() (c [256]uint8) {
	copy(c[:utf8.RuneSelf], classBlocks[blockOf[0]][:])
	for b := utf8.RuneSelf; b < len(c); b++ {
		c[b] = other
	}
	return c
}()

// classAt returns the class and the length of the character at s[p]. A byte that
// does not belong to well-formed UTF-8 is a mark of length 1.
func classAt(s string, p int) (class uint8, size int) {
	if c := asciiClass[s[p]]; c != other {
		return c, 1
	}
	return longClassAt(s, p)
}

// longClassAt is classAt for characters outside ASCII.
func longClassAt(s string, p int) (class uint8, size int) {
	r, size := utf8.DecodeRuneInString(s[p:])
	if size == 1 {
		return mark, 1
	}
	return classBlocks[blockOf[r>>8]][uint8(r)], size
}
