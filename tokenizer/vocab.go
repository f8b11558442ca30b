package tokenizer

// A vocab holds the bytes of all tokens, one after another. Ids without a token
// have no bytes.
type vocab struct {
	blob []byte
	off  []uint32 // token id is blob[off[id]:off[id+1]]
}

func (v *vocab) size() int { return len(v.off) - 1 }

func (v *vocab) token(id int32) []byte {
	i, j := v.off[id], v.off[id+1]
	return v.blob[i:j:j]
}
