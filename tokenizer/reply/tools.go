package reply

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A Tool is what the parser must know of a function the model may call.
type Tool struct {
	Name string
	// Parameters is the JSON schema of the arguments, an object. Without one,
	// any parameter is taken and nothing is known of its type.
	Parameters json.RawMessage
}

// Tools is a set of declared tools, compiled for reading calls of them. It never
// changes and may be used by any number of parsers at once. A nil *Tools
// declares nothing.
type Tools struct {
	byName  map[string]*tool
	longest int // longest name in bytes
}

// tool is what a schema says about the arguments of one tool.
type tool struct {
	params   map[string]*shape
	required []string
	extra    *shape // of parameters that are not listed; nil if they are refused
	longest  int    // longest parameter in bytes
}

// undeclared stands for a tool that nobody declared: its calls are followed to
// their end, so that nothing inside them is taken for something else.
var undeclared = &tool{extra: anything}

// NewTools compiles declarations. Two tools of one name, an empty name, or
// parameters that are not a JSON schema are a [*SchemaError].
func NewTools(list ...Tool) (*Tools, error) {
	s := &Tools{byName: make(map[string]*tool, len(list))}
	for i, t := range list {
		if t.Name == "" {
			return nil, &SchemaError{Tool: i, Path: "name", Want: "a name", Have: "none"}
		}
		if s.byName[t.Name] != nil {
			return nil, &SchemaError{Tool: i, Path: "name", Want: "a new name", Have: "that of an earlier tool"}
		}
		c, err := compile(t.Parameters)
		if err != nil {
			err.Tool = i
			return nil, err
		}
		s.byName[t.Name] = c
		s.longest = max(s.longest, len(t.Name))
	}
	return s, nil
}

// find looks a tool up by the text that stands for its name: as it is, without
// the line end that GLM-4.5 puts after it, without any blanks around it.
func (s *Tools) find(name string) (string, *tool) {
	if s == nil {
		return "", nil
	}
	for _, n := range [...]string{name, strings.TrimSuffix(name, "\n"), strings.Trim(name, blanks)} {
		if t := s.byName[n]; t != nil {
			return n, t
		}
	}
	return "", nil
}

// split cuts text into the name of a tool and one of its parameters, for a call
// whose <arg_key> is missing. There must be one way to do it only.
func (s *Tools) split(text string) (name, key string, t *tool) {
	if s == nil {
		return "", "", nil
	}
	text = strings.Trim(text, blanks)
	for n, candidate := range s.byName {
		rest, ok := strings.CutPrefix(text, n)
		if !ok {
			continue
		}
		rest = strings.TrimLeft(rest, blanks)
		if candidate.params[rest] == nil {
			continue
		}
		if t != nil {
			return "", "", nil
		}
		name, key, t = n, rest, candidate
	}
	return name, key, t
}

// mayBeCall reports whether text that follows <tool_call> can still become a
// call. If it cannot, the model was talking about the tag. A call is a word, or
// starts with a declared name, or is JSON. Once the answer is no it stays no,
// however the text goes on; only a bounded part of it is looked at.
func (s *Tools) mayBeCall(text []byte) bool {
	longest := 0
	if s != nil {
		longest = s.longest
	}
	start := text[:min(len(text), longest+2*maxName)]
	word := bytes.TrimLeft(start, blanks)
	if s != nil {
		for n := range s.byName {
			if share(start, n) || share(word, n) && len(start)-len(word) <= maxName {
				return true
			}
		}
	}
	if len(start)-len(word) > maxName {
		return false
	}
	if len(word) == 0 || word[0] == '{' || word[0] == '[' {
		return true
	}
	end := bytes.IndexAny(word, blanks)
	if end < 0 {
		return len(word) <= maxName
	}
	return len(bytes.Trim(word[end:], blanks)) == 0
}

// share reports whether one of text and name is the beginning of the other.
func share(text []byte, name string) bool {
	n := min(len(text), len(name))
	return string(text[:n]) == name[:n]
}

// maxName is the longest name in bytes that is believed of a tool or parameter
// nobody declared.
const maxName = 256

const blanks = " \t\r\n"

// find looks a parameter up by the text that stands for it: as it is, or without
// blanks around it. The shape is nil if there can be no such parameter.
func (t *tool) find(key string) (name string, s *shape, listed bool) {
	if s = t.params[key]; s != nil {
		return key, s, true
	}
	name = strings.Trim(key, blanks)
	if s = t.params[name]; s != nil {
		return name, s, true
	}
	return name, t.extra, false
}

// mayBegin reports whether text can be the beginning of a declared parameter.
func (t *tool) mayBegin(text []byte) bool {
	if len(text) > t.longest+maxName {
		return false
	}
	word := bytes.Trim(text, blanks)
	for p := range t.params {
		if len(word) <= len(p) && p[:len(word)] == string(word) {
			return true
		}
	}
	return false
}
