package checkpoint

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of failure; test with errors.Is.
var (
	// ErrUnsupportedModel reports a config.json that asks for something this
	// module does not do, or whose numbers no model can have. The detail is an
	// *UnsupportedError.
	ErrUnsupportedModel = errors.New("unsupported model")

	// ErrCorruptCheckpoint reports files that contradict the format, each other
	// or the configuration. The detail is a *CheckpointError.
	ErrCorruptCheckpoint = errors.New("corrupt checkpoint")
)

// UnsupportedError names the configuration field that cannot be honoured. It
// matches [ErrUnsupportedModel].
type UnsupportedError struct {
	Field     string // path in config.json: "rope_scaling.type"
	Value     string // what the file says; "absent" if it says nothing
	Supported string // what would be accepted
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("unsupported model: %s is %s; supported: %s", e.Field, e.Value, e.Supported)
}

// Unwrap makes errors.Is(err, ErrUnsupportedModel) true.
func (e *UnsupportedError) Unwrap() error { return ErrUnsupportedModel }

// CheckpointError says where a checkpoint is broken. It matches
// [ErrCorruptCheckpoint] and, when the system reported the fault, that error
// too.
type CheckpointError struct {
	File   string // name inside the checkpoint directory
	Tensor string // tensor name; empty when the fault is not one tensor's
	Offset int64  // byte in File; -1 when the fault has no place
	Want   string
	Have   string
	Err    error // cause from the system, or nil
}

func (e *CheckpointError) Error() string {
	var b strings.Builder
	b.WriteString("corrupt checkpoint: ")
	b.WriteString(e.File)
	if e.Tensor != "" {
		fmt.Fprintf(&b, ": tensor %q", e.Tensor)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	fmt.Fprintf(&b, ": want %s, have %s", e.Want, e.Have)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap makes errors.Is(err, ErrCorruptCheckpoint) true, and the same for the
// cause.
func (e *CheckpointError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrCorruptCheckpoint}
	}
	return []error{ErrCorruptCheckpoint, e.Err}
}
