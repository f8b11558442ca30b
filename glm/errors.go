package glm

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferdam-ml/cofferdam/cuda"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/kvcache"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// Opening a model.
var (
	// ErrUnsupportedModel reports a configuration that asks for something that
	// this module does not do. The detail is an *UnsupportedError.
	ErrUnsupportedModel = checkpoint.ErrUnsupportedModel

	// ErrCorruptCheckpoint reports files that contradict the format, each other
	// or the configuration. The detail is a *CheckpointError.
	ErrCorruptCheckpoint = checkpoint.ErrCorruptCheckpoint

	// ErrNoMemory reports converted weights that do not fit into memory and have no
	// Config.WeightsCache to be mapped from. The detail is a *MemoryError.
	ErrNoMemory = checkpoint.ErrNoMemory

	// ErrUnknownTemplate reports a chat template that nothing here renders. The
	// detail is a *TemplateError.
	ErrUnknownTemplate = chat.ErrUnknownTemplate

	// ErrFingerprint reports files that were made for another model than the one
	// that is open. The detail is a *FingerprintError. Nothing in this build reads
	// such files yet.
	ErrFingerprint = errors.New("glm: fingerprint mismatch")

	// ErrNotBuilt reports a device that this build has no code for.
	ErrNotBuilt = cuda.ErrNotBuilt
)

// Refusals: nothing was computed.
var (
	// ErrInvalidRequest reports a request that means nothing. The detail is a
	// *RequestError.
	ErrInvalidRequest = chat.ErrInvalidRequest

	// ErrContextExceedsModel and ErrContextExceedsPool report a prompt and output
	// that are longer than the model, or one session in this pool, can ever hold.
	// The detail is a *ContextError.
	ErrContextExceedsModel = kvcache.ErrContextExceedsModel
	ErrContextExceedsPool  = kvcache.ErrContextExceedsPool

	// ErrPoolExhausted reports a request that fits, but not now. The detail is
	// an *ExhaustedError.
	ErrPoolExhausted = kvcache.ErrPoolExhausted

	// ErrPeerMismatch reports pools that cannot hand sequences to each other.
	ErrPeerMismatch = kvcache.ErrPeerMismatch

	// ErrSessionBusy reports a second generation on a session that has one.
	ErrSessionBusy = errors.New("glm: session busy")
)

// Ends.
var (
	ErrSessionClosed = kvcache.ErrSessionClosed
	ErrPoolClosed    = kvcache.ErrPoolClosed
	ErrModelClosed   = errors.New("glm: model closed")

	// ErrCanceled wraps the error of the context that ended the request.
	ErrCanceled = errors.New("glm: cancelled")
)

// Failures inside. ErrStalePage to ErrBinding are guards that stopped a read or
// write that must not happen; the detail is an *IntegrityError.
var (
	ErrStalePage = kvcache.ErrStalePage
	ErrUnwritten = kvcache.ErrUnwritten
	ErrHandoff   = kvcache.ErrHandoff
	ErrBinding   = kvcache.ErrBinding

	// ErrDevice reports a computation that failed. The detail is a *DeviceError.
	ErrDevice = errors.New("glm: device")
)

type (
	// UnsupportedError names the field that cannot be honoured.
	UnsupportedError = checkpoint.UnsupportedError
	// CheckpointError says where a checkpoint is broken.
	CheckpointError = checkpoint.CheckpointError
	// MemoryError says how much memory was needed and how much there is.
	MemoryError = checkpoint.MemoryError
	// TemplateError names the fingerprint of a template and the known ones.
	TemplateError = chat.TemplateError
	// RequestError names the field of a request and what is wrong with it.
	RequestError = chat.RequestError
	// ContextError holds the lengths asked for and the limit.
	ContextError = kvcache.ContextError
	// ExhaustedError says how much was needed and when to come again.
	ExhaustedError = kvcache.ExhaustedError
	// IntegrityError says what a guard expected and found.
	IntegrityError = kvcache.IntegrityError
)

// FingerprintError says whose files were expected and whose were found. It matches
// ErrFingerprint.
type FingerprintError struct {
	Want, Have string // fingerprints, in hex
}

func (e *FingerprintError) Error() string {
	return fmt.Sprintf("glm: fingerprint mismatch: want %s, have %s", e.Want, e.Have)
}

// Unwrap returns ErrFingerprint.
func (e *FingerprintError) Unwrap() error { return ErrFingerprint }

// DeviceError says which operation failed and how. It matches ErrDevice and, if
// there is one, the cause.
type DeviceError struct {
	Op   string // what was being done
	Code int    // the device's own code; on the CPU the health word of the row
	Name string // the code in words
	Err  error  // cause, or nil
}

func (e *DeviceError) Error() string {
	s := fmt.Sprintf("glm: device: %s: %s (code %d)", e.Op, e.Name, e.Code)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrDevice and the cause.
func (e *DeviceError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrDevice}
	}
	return []error{ErrDevice, e.Err}
}

// cancelled wraps the error of an ended context, and the cause if it has one of
// its own.
func cancelled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", ErrCanceled, cause)
	}
	return fmt.Errorf("%w: %w: %w", ErrCanceled, err, cause)
}

// classes is the table of errors for those who answer over HTTP. The first line
// that matches holds.
var classes = []struct {
	kind   error
	status int
	code   string
}{
	{ErrContextExceedsModel, 400, "context_length_exceeded"},
	{ErrContextExceedsPool, 400, "context_length_exceeded"},
	{ErrPoolExhausted, 429, "capacity_exceeded"},
	{ErrSessionBusy, 409, "session_busy"},
	{ErrSessionClosed, 410, "closed"},
	{ErrPoolClosed, 410, "closed"},
	{ErrModelClosed, 410, "closed"},
	{ErrInvalidRequest, 400, "invalid_request"},
	{ErrStalePage, 500, "kv_integrity"},
	{ErrUnwritten, 500, "kv_integrity"},
	{ErrHandoff, 500, "kv_integrity"},
	{ErrBinding, 500, "kv_integrity"},
	{ErrPeerMismatch, 503, "peer_mismatch"},
	{ErrDevice, 500, "device"},
	{ErrNotBuilt, 500, "device"},
	{ErrCanceled, 499, "cancelled"},
	{context.Canceled, 499, "cancelled"},
	{context.DeadlineExceeded, 499, "cancelled"},
}

// Code returns a stable word for the kind of an error, "" for nil and
// "internal" for one that no request can meet.
func Code(err error) string {
	_, code := class(err)
	return code
}

// HTTPStatus returns the status to answer with, 200 for nil and 500 for an error
// that no request can meet.
func HTTPStatus(err error) int {
	status, _ := class(err)
	return status
}

func class(err error) (status int, code string) {
	if err == nil {
		return 200, ""
	}
	for _, c := range classes {
		if errors.Is(err, c.kind) {
			return c.status, c.code
		}
	}
	return 500, "internal"
}
