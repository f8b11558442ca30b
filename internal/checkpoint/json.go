package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxJSONDepth bounds nesting: published files nest four deep.
const maxJSONDepth = 32

// A jsonError is a fault in JSON text, at a byte of it.
type jsonError struct {
	offset     int64
	want, have string
}

func (e *jsonError) in(file string, base int64) *CheckpointError {
	return &CheckpointError{File: file, Offset: base + e.offset, Want: e.want, Have: e.have}
}

// jsonScanner walks JSON text token by token. It is stricter than
// encoding/json, which keeps the last of two equal keys and replaces broken
// UTF-8, so that two readers of one file might see two different models.
type jsonScanner struct {
	dec   *json.Decoder
	depth int
}

// newJSONScanner checks the syntax of the whole text first: tokens of text that
// is broken further on are never used.
func newJSONScanner(data []byte) (*jsonScanner, *jsonError) {
	if !utf8.Valid(data) {
		return nil, &jsonError{offset: int64(invalidUTF8(data)), want: "UTF-8 text", have: "other bytes"}
	}
	if !json.Valid(data) {
		var all json.RawMessage
		err := json.Unmarshal(data, &all)
		e := &jsonError{want: "JSON", have: fmt.Sprint(err)}
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			e.offset = syntax.Offset
		}
		return nil, e
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return &jsonScanner{dec: dec}, nil
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

func (s *jsonScanner) fault(want, have string) *jsonError {
	return &jsonError{offset: s.dec.InputOffset(), want: want, have: have}
}

func (s *jsonScanner) token() (json.Token, *jsonError) {
	t, err := s.dec.Token()
	if err == nil {
		return t, nil
	}
	if errors.Is(err, io.EOF) {
		return nil, s.fault("a JSON value", "end of text")
	}
	return nil, s.fault("JSON", err.Error())
}

// object reads an object and calls field for every key, which must read the
// value. Keys are unique.
func (s *jsonScanner) object(field func(key string) *jsonError) *jsonError {
	t, e := s.token()
	if e != nil {
		return e
	}
	if t != json.Delim('{') {
		return s.fault("an object", jsonKind(t))
	}
	return s.objectBody(field)
}

// objectBody is object after its opening brace.
func (s *jsonScanner) objectBody(field func(key string) *jsonError) *jsonError {
	if s.depth++; s.depth > maxJSONDepth {
		return s.fault(fmt.Sprintf("at most %d nested values", maxJSONDepth), "more")
	}
	seen := make(map[string]struct{})
	for s.dec.More() {
		t, e := s.token()
		if e != nil {
			return e
		}
		key, ok := t.(string)
		if !ok {
			return s.fault("a key", jsonKind(t))
		}
		if _, dup := seen[key]; dup {
			return s.fault("unique keys", fmt.Sprintf("%q twice", key))
		}
		seen[key] = struct{}{}
		if e := field(key); e != nil {
			return e
		}
	}
	s.depth--
	_, e := s.token() // the closing brace
	return e
}

// value reads any value: nil, bool, json.Number, string, []any or
// map[string]any.
func (s *jsonScanner) value() (any, *jsonError) {
	t, e := s.token()
	if e != nil {
		return nil, e
	}
	switch t {
	case json.Delim('{'):
		m := make(map[string]any)
		e := s.objectBody(func(key string) (e *jsonError) {
			m[key], e = s.value()
			return e
		})
		return m, e
	case json.Delim('['):
		if s.depth++; s.depth > maxJSONDepth {
			return nil, s.fault(fmt.Sprintf("at most %d nested values", maxJSONDepth), "more")
		}
		list := []any{}
		for s.dec.More() {
			v, e := s.value()
			if e != nil {
				return nil, e
			}
			list = append(list, v)
		}
		s.depth--
		_, e := s.token()
		return list, e
	}
	return t, nil
}

// parseObject reads text that is one JSON object.
func parseObject(data []byte) (map[string]any, *jsonError) {
	s, e := newJSONScanner(data)
	if e != nil {
		return nil, e
	}
	m := make(map[string]any)
	e = s.object(func(key string) (e *jsonError) {
		m[key], e = s.value()
		return e
	})
	return m, e
}

func jsonKind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case json.Delim:
		if v == '{' {
			return "an object"
		}
		return "a list"
	}
	return "something else"
}
