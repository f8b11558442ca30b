package glm

import "github.com/cofferdam-ml/cofferdam/internal/checkpoint"

// Reading a checkpoint.
var (
	// ErrUnsupportedModel reports a configuration that asks for something that
	// this module does not do. The detail is an *UnsupportedError.
	ErrUnsupportedModel = checkpoint.ErrUnsupportedModel

	// ErrCorruptCheckpoint reports files that contradict the format, each other
	// or the configuration. The detail is a *CheckpointError.
	ErrCorruptCheckpoint = checkpoint.ErrCorruptCheckpoint
)

// UnsupportedError names the field of config.json that cannot be honoured.
type UnsupportedError = checkpoint.UnsupportedError

// CheckpointError says where a checkpoint is broken.
type CheckpointError = checkpoint.CheckpointError
