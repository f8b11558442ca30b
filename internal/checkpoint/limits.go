package checkpoint

// Limits on what a file may claim. They lie an order of magnitude above the
// largest published model, and keep every product of sizes within an int: a
// hostile file costs a typed error, not memory.
const (
	maxLayers    = 1024
	maxMTP       = 16
	maxWidth     = 1 << 18 // hidden, intermediate, head counts times dims
	maxHeads     = 4096
	maxHeadDim   = 8192
	maxVocab     = 1 << 24
	maxExperts   = 4096
	maxPositions = 1 << 30
	maxTensors   = 1 << 22 // weights that a configuration may ask for

	maxConfigBytes = 4 << 20
	maxIndexBytes  = 512 << 20
	maxHeaderBytes = 100 << 20 // the limit of the reference implementation
	maxShards      = 1 << 16
	maxRank        = 8
)
