package glm

import "github.com/cofferdam-ml/cofferdam/internal/checkpoint"

// kvFormat is how cached values are stored.
type kvFormat struct {
	name string
	elem int64 // bytes of a value
	// fp8 adds a 4-byte scale per group of 128 latent values and per indexer
	// key; rope values stay in BF16. Keys and values of GQA have no scales.
	fp8 bool
}

var kvFormats = []kvFormat{{name: "f32", elem: 4}, {name: "bf16", elem: 2}, {name: "fp8", elem: 1, fp8: true}}

// scaled returns the bytes of n values with their scales.
func (f kvFormat) scaled(n int) int64 {
	b := int64(n) * f.elem
	if f.fp8 {
		b += 4 * int64((n+127)/128)
	}
	return b
}

// wide returns the bytes of n values that are never narrower than BF16.
func (f kvFormat) wide(n int) int64 { return int64(n) * max(f.elem, 2) }

// kvCosts computes what one sequence caches, by format.
//
// Per layer and token MLA caches one latent and one rotated key shared by all
// heads, GQA a key and a value per KV head. An indexer caches one key per token,
// or one per pool of tokens. A linear-attention layer caches nothing per token:
// its state is a matrix of f32 per head, and the last inputs of three
// convolutions.
func kvCosts(c *checkpoint.Config) []KVCost {
	var out []KVCost
	for _, f := range kvFormats {
		k := KVCost{Format: f.name}
		pool := 1
		if c.Next != nil {
			pool = c.Next.KPool
		}
		var pooled int64 // bytes per complete pool
		for i := range c.Layers {
			switch {
			case c.LinearLayer(i):
				wide := c.Next.LinearHeads * c.Next.LinearHeadDim
				k.PerSequence += 4*int64(wide)*int64(c.Next.LinearHeadDim) + f.wide(3*wide*(c.Next.ConvKernel-1))
			case c.MLA():
				k.PerToken += f.scaled(c.KVLoraRank) + f.wide(c.QKRope)
			default:
				k.PerToken += 2 * int64(c.KVHeads) * int64(c.HeadDim) * f.elem
			}
			if c.IndexLayer(i) {
				pooled += f.scaled(c.Index.HeadDim)
			}
		}
		tokens := int64(c.MaxPositions)
		k.FullContext = k.PerSequence + tokens*k.PerToken + tokens/int64(pool)*pooled
		k.PerToken += (pooled + int64(pool) - 1) / int64(pool)
		out = append(out, k)
	}
	return out
}
