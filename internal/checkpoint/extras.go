package checkpoint

import (
	"fmt"
	"iter"
)

// extras yields the tensors that a checkpoint may hold although nothing reads
// them, the whole list:
//
//   - an indexer on a layer that shares another's selection: some conversions
//     write one for every layer;
//   - an MTP layer's copies of the embedding and the head;
//   - rotary inverse frequencies, which old conversions saved as buffers.
//
// MTP layers themselves are among the weights, and may be absent as a whole.
func extras(c *Config) iter.Seq[weight] {
	return func(yield func(weight) bool) {
		root := textRoot(c)
		w := &writer{c: c, yield: yield, more: true, prefix: root, layer: -1}
		half := c.Rope.Dims / 2
		if half > 0 {
			w.put(KindUnused, storeBF16, "rotary_emb.inv_freq", half)
		}
		for i := range c.Layers + c.MTPLayers {
			w.prefix, w.layer, w.kind = fmt.Sprintf("%slayers.%d.", root, i), i, KindUnused
			if half > 0 {
				w.put(KindUnused, storeBF16, "self_attn.rotary_emb.inv_freq", half)
			}
			if c.Index.TopK > 0 && !c.IndexLayer(i) && !c.LinearLayer(i) {
				w.indexer()
			}
			if i >= c.Layers {
				w.put(KindUnused, storeBF16, "embed_tokens.weight", c.Vocab, c.Hidden)
				w.put(KindUnused, storeLinear, "shared_head.head.weight", c.Vocab, c.Hidden)
			}
		}
	}
}
