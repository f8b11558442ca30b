package chat

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure. Everything this package returns matches one of them with
// [errors.Is].
var (
	// ErrInvalidRequest: the conversation cannot be rendered as it stands. The
	// detail is a [*RequestError].
	ErrInvalidRequest = errors.New("chat: invalid request")

	// ErrUnknownTemplate: no renderer is known to print what this chat template
	// prints, or none has this name. The detail is a [*TemplateError].
	ErrUnknownTemplate = errors.New("chat: unknown template")

	// ErrMissingToken: the vocabulary lacks a control token of the template, so
	// it is not a GLM vocabulary. The detail is a [*TokenError].
	ErrMissingToken = errors.New("chat: control token missing from the vocabulary")
)

// A RequestError names the part of a conversation that cannot be rendered. It
// matches [ErrInvalidRequest]. It never holds text of the conversation beyond
// short names that the API defines, such as a role or the type of a part.
type RequestError struct {
	// Field is a path, such as messages[3].tool_calls[0].function.arguments, from
	// what was rendered or read on; "" if the whole of it is wrong.
	Field  string
	Reason string // what is wrong there
}

func (e *RequestError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%v: %s", ErrInvalidRequest, e.Reason)
	}
	return fmt.Sprintf("%v: %s: %s", ErrInvalidRequest, e.Field, e.Reason)
}

// Unwrap returns [ErrInvalidRequest].
func (e *RequestError) Unwrap() error { return ErrInvalidRequest }

// A TemplateError says which template was asked for and which there are. It
// matches [ErrUnknownTemplate].
type TemplateError struct {
	Name        string   // the name asked for, "" if a file was looked at
	Fingerprint string   // SHA-256 of the file in hex, "" if a name was asked for
	Known       []string // names that [Named] accepts
}

func (e *TemplateError) Error() string {
	what := "name " + quote(e.Name)
	if e.Fingerprint != "" {
		what = "chat template with SHA-256 " + e.Fingerprint
	}
	return fmt.Sprintf("%v: %s; known: %s", ErrUnknownTemplate, what, strings.Join(e.Known, ", "))
}

// Unwrap returns [ErrUnknownTemplate].
func (e *TemplateError) Unwrap() error { return ErrUnknownTemplate }

// A TokenError names the control token that a vocabulary lacks. It matches
// [ErrMissingToken].
type TokenError struct {
	Template string // name of the template
	Token    string // text of the token, such as <|observation|>
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("%v: %s needs %s", ErrMissingToken, e.Template, e.Token)
}

// Unwrap returns [ErrMissingToken].
func (e *TokenError) Unwrap() error { return ErrMissingToken }

// quote shows a short name of the caller in an error message. Names are cut, so
// that a conversation put in the wrong place does not end up in a log.
func quote(name string) string {
	const most = 32
	if len(name) > most {
		name = name[:most] + "..."
	}
	return fmt.Sprintf("%q", name)
}
