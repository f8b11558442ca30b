package checkpoint

// Limits on what a file may claim. They lie above the largest published model by
// a factor of four at least, and keep every product and sum of sizes, up to the
// bytes of a full cache, within an int64: a hostile file costs a typed error.
const (
	maxLayers    = 1024
	maxMTP       = 16
	maxWidth     = 1 << 18 // hidden, intermediate, head counts times dims
	maxHeads     = 1024
	maxHeadDim   = 1024
	maxVocab     = 1 << 24
	maxExperts   = 4096
	maxPositions = 1 << 28
	maxTensors   = 1 << 22 // weights that a configuration may ask for

	maxConfigBytes = 4 << 20
	maxIndexBytes  = 512 << 20
	maxHeaderBytes = 100 << 20 // the limit of the reference implementation
	maxShards      = 1 << 16
	maxRank        = 8
)
