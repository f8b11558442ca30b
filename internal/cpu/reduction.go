package cpu

import "github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"

// The orders of summation in products and attention. Changing a constant changes
// the bits of every result, so kernels change around them and never the other
// way. Mean squares of norms and the sums of attention's weights over a block have
// the order of products too; the values of a block are added key by key. The other
// sums have no choice to publish: the indexer adds its heads, the router its k
// weights and sampling its probabilities one after the other; the indexer's
// LayerNorm sums in f64, one after the other.
const (
	// lanes is L, the number of partial sums of a dot product along k, the same
	// for F32, F16, BF16 and FP8 weights: partial sum j takes the products of
	// k = j mod lanes in ascending k, missing products count as zero, and the
	// partial sums are added in order, ((s0+s1)+s2)+...
	//
	// For int8 and int4 weights a group of kernel.Group products is an exact integer;
	// it is scaled by the activations' scale, then the weights', and groups are added
	// in order.
	lanes = kernel.Lanes

	// keyBlock is how many keys of a row's ascending list share one maximum, sum
	// and output in attention. Blocks are combined in ascending order.
	keyBlock = 64
)
