package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
)

// The two kinds of failure. Everything that Load, Parse and ParseRanks return
// matches one of them with [errors.Is], except what the file system itself
// reports.
var (
	// ErrFormat: the file is not what its format says, so no reader could use
	// it. The detail is a [*FormatError].
	ErrFormat = errors.New("tokenizer: malformed vocabulary")

	// ErrUnsupported: the file is well formed and asks for something that GLM
	// vocabularies do not use and this package does not do. The detail is an
	// [*UnsupportedError].
	ErrUnsupported = errors.New("tokenizer: unsupported vocabulary")
)

// A FormatError says where a vocabulary file is broken. It matches [ErrFormat].
type FormatError struct {
	File   string // file name, "" if the bytes came without one
	Field  string // path of the value, such as model.merges[17]
	Offset int64  // byte offset in the file, -1 if no single place is to blame
	Want   string // what the format requires there
	Have   string // what stands there
}

func (e *FormatError) Error() string {
	s := ErrFormat.Error() + ": " + place(e.File, e.Field)
	if e.Offset >= 0 {
		s += " at byte " + strconv.FormatInt(e.Offset, 10)
	}
	return s + ": want " + e.Want + ", have " + e.Have
}

// Unwrap returns [ErrFormat].
func (e *FormatError) Unwrap() error { return ErrFormat }

// An UnsupportedError names the setting that this package does not implement.
// It matches [ErrUnsupported].
type UnsupportedError struct {
	File      string // file name, "" if the bytes came without one
	Field     string // path of the setting, such as normalizer.type
	Value     string // the value found
	Supported string // the values that would have been accepted
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%v: %s is %s, supported: %s", ErrUnsupported, place(e.File, e.Field), e.Value, e.Supported)
}

// Unwrap returns [ErrUnsupported].
func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }

func place(file, field string) string {
	if file == "" {
		return field
	}
	return file + ": " + field
}

// show quotes a value of the file for an error message and keeps it short.
func show(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
