package tokenizer

// A vocab holds the bytes of all tokens, one after another. Ids without a token
// have no bytes.
type vocab struct {
	blob []byte
	off  []uint32 // token id is blob[off[id]:off[id+1]]
	text []uint64 // a bit for each id: its bytes are whole characters
}

func (v *vocab) size() int { return len(v.off) - 1 }

// token returns the bytes of a token; id must be below the size.
func (v *vocab) token(id int32) []byte {
	i, j := v.off[id], v.off[id+1]
	return v.blob[i:j:j]
}

// isText reports whether there is such a token and it is valid UTF-8.
func (v *vocab) isText(id int32) bool {
	return uint(id)>>6 < uint(len(v.text)) && v.text[uint(id)>>6]>>(uint(id)&63)&1 != 0
}
