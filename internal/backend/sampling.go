package backend

// Sampling says how one out row is adjusted and sampled.
//
// Ids outside the vocabulary are ignored; mask words past the end allow nothing.
//
// AdjustLogits works on l in this order: repetition penalty (l > 0: l / r, else
// l * r) for every id in Counts; then l -= Presence + Frequency * count for those
// with a count above zero; then l += bias; then ids outside Mask become -inf.
//
// Sample works on p = softmax(l / Temperature): the TopK largest, renormalised;
// of these the shortest run, largest first, whose sum reaches TopP; of these the
// ones with p >= MinP * max p. Then, in that order, the first id whose running
// sum of renormalised p exceeds U. Equal p are ordered by lower id. All sums are
// f64.
type Sampling struct {
	Temperature float32 // 0: greedy, the lowest id among the largest
	TopK        int32   // 0: all
	TopP        float32 // 0 or at least 1: all
	MinP        float32 // 0: all
	U           float64 // uniform in [0, 1)

	Repetition, Presence, Frequency float32 // Repetition 0 or 1, others 0: none
	Counts                          []TokenCount
	Bias                            []TokenBias
	Mask                            []uint64 // bit i%64 of word i/64 allows id i; nil: all

	// Top is how many of the most likely ids to report; ids that cannot be sampled
	// are left out. Log-probabilities are
	// those of softmax(l) after AdjustLogits, before temperature and truncation.
	Top int32
}

// TokenCount is how often an id was sampled; 0 for one that is in the prompt only.
type TokenCount struct{ ID, Count int32 }

// TokenBias is added to the logit of an id.
type TokenBias struct {
	ID   int32
	Bias float32
}
