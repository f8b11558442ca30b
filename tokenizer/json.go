package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonReader walks over a JSON text value by value, in place. The vocabulary
// part of a tokenizer.json has half a million small strings; reading them this
// way finds repeated keys and says where in the file a mistake is, which
// encoding/json does not.
type jsonReader struct {
	data    []byte
	pos     int
	file    string
	scratch []byte
}

// maxDepth is how deep values may be nested.
const maxDepth = 64

func (r *jsonReader) errorAt(pos int, field, want string) error {
	have := "the end of the file"
	if pos < len(r.data) {
		have = show(string(r.data[pos:min(pos+16, len(r.data))]))
	}
	return &FormatError{File: r.file, Field: field, Offset: int64(pos), Want: want, Have: have}
}

// peek skips blanks and returns the next byte, or 0 at the end.
func (r *jsonReader) peek() byte {
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.pos++
	return true
}

// object calls value at each value of an object, which must consume it.
func (r *jsonReader) object(field string, value func(key string, at int) error) error {
	if !r.take('{') {
		return r.errorAt(r.pos, field, "an object")
	}
	if r.take('}') {
		return nil
	}
	var key []byte
	for {
		r.peek()
		at := r.pos
		var err error
		if key, err = r.text(key[:0], field); err != nil {
			return err
		}
		if !r.take(':') {
			return r.errorAt(r.pos, field, "a colon")
		}
		if err := value(string(key), at); err != nil {
			return err
		}
		switch {
		case r.take(','):
		case r.take('}'):
			return nil
		default:
			return r.errorAt(r.pos, field, "a comma or the end of the object")
		}
	}
}

// array calls element at each element of an array, which must consume it.
func (r *jsonReader) array(field string, element func(i int) error) error {
	if !r.take('[') {
		return r.errorAt(r.pos, field, "an array")
	}
	if r.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		r.peek()
		if err := element(i); err != nil {
			return err
		}
		switch {
		case r.take(','):
		case r.take(']'):
			return nil
		default:
			return r.errorAt(r.pos, field, "a comma or the end of the array")
		}
	}
}

// fields reads an object whose keys are known: each has its reader. Other keys
// are skipped, a known key may come once.
func (r *jsonReader) fields(field string, known map[string]func(field string) error) error {
	seen := map[string]bool{}
	return r.object(field, func(key string, at int) error {
		read, ok := known[key]
		path := key
		if field != "" {
			path = field + "." + key
		}
		if !ok {
			return r.skip(path, 0)
		}
		if seen[key] {
			return &FormatError{File: r.file, Field: path, Offset: int64(at), Want: "each key once", Have: show(key) + " again"}
		}
		seen[key] = true
		return read(path)
	})
}

// text appends a string, unescaped, to dst.
func (r *jsonReader) text(dst []byte, field string) ([]byte, error) {
	if !r.take('"') {
		return dst, r.errorAt(r.pos, field, "a string")
	}
	start := r.pos
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c == '"':
			run := r.data[start:r.pos]
			if !utf8.Valid(run) {
				return dst, r.errorAt(start, field, "a string in UTF-8")
			}
			r.pos++
			return append(dst, run...), nil
		case c == '\\':
			run := r.data[start:r.pos]
			if !utf8.Valid(run) {
				return dst, r.errorAt(start, field, "a string in UTF-8")
			}
			var err error
			if dst, err = r.escape(append(dst, run...), field); err != nil {
				return dst, err
			}
			start = r.pos
		case c < ' ':
			return dst, r.errorAt(r.pos, field, "a string without raw control characters")
		default:
			r.pos++
		}
	}
	return dst, r.errorAt(r.pos, field, "the end of the string")
}

// escape appends the character that the escape at pos stands for.
func (r *jsonReader) escape(dst []byte, field string) ([]byte, error) {
	at := r.pos
	if at+1 >= len(r.data) {
		return dst, r.errorAt(len(r.data), field, "the end of the string")
	}
	r.pos += 2
	switch c := r.data[at+1]; c {
	case '"', '\\', '/':
		return append(dst, c), nil
	case 'b':
		return append(dst, '\b'), nil
	case 'f':
		return append(dst, '\f'), nil
	case 'n':
		return append(dst, '\n'), nil
	case 'r':
		return append(dst, '\r'), nil
	case 't':
		return append(dst, '\t'), nil
	case 'u':
		u, ok := r.hex4()
		if ok && utf16.IsSurrogate(u) {
			var low rune
			if ok = r.pos+2 <= len(r.data) && string(r.data[r.pos:r.pos+2]) == `\u`; ok {
				r.pos += 2
				low, ok = r.hex4()
				u = utf16.DecodeRune(u, low)
				ok = ok && u != utf8.RuneError
			}
		}
		if !ok {
			return dst, r.errorAt(at, field, `\u and four hexadecimal digits, surrogates in pairs`)
		}
		return utf8.AppendRune(dst, u), nil
	}
	return dst, r.errorAt(at, field, "an escape that JSON knows")
}

func (r *jsonReader) hex4() (rune, bool) {
	if r.pos+4 > len(r.data) {
		return 0, false
	}
	u, err := strconv.ParseUint(string(r.data[r.pos:r.pos+4]), 16, 16)
	r.pos += 4
	return rune(u), err == nil
}

// integer reads a whole number without sign or exponent.
func (r *jsonReader) integer(field string) (int64, error) {
	r.peek()
	start := r.pos
	for r.pos < len(r.data) && '0' <= r.data[r.pos] && r.data[r.pos] <= '9' {
		r.pos++
	}
	n, err := strconv.ParseInt(string(r.data[start:r.pos]), 10, 64)
	if err != nil || r.pos-start > 1 && r.data[start] == '0' {
		return 0, r.errorAt(start, field, "a whole number")
	}
	return n, nil
}

// skip passes over any value. Numbers and literals are only passed over, not
// checked.
func (r *jsonReader) skip(field string, depth int) error {
	if depth > maxDepth {
		return r.errorAt(r.pos, field, fmt.Sprintf("values nested at most %d deep", maxDepth))
	}
	switch r.peek() {
	case '{':
		return r.object(field, func(string, int) error { return r.skip(field, depth+1) })
	case '[':
		return r.array(field, func(int) error { return r.skip(field, depth+1) })
	case '"':
		var err error
		r.scratch, err = r.text(r.scratch[:0], field)
		return err
	}
	start := r.pos
	for r.pos < len(r.data) && bareByte(r.data[r.pos]) {
		r.pos++
	}
	if r.pos == start {
		return r.errorAt(start, field, "a value")
	}
	return nil
}

// bareByte reports whether c may stand in a number, true, false or null.
func bareByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// decode reads one value into v with encoding/json: for the small parts.
func (r *jsonReader) decode(field string, v any) error {
	r.peek()
	start := r.pos
	if err := r.skip(field, 0); err != nil {
		return err
	}
	if err := json.Unmarshal(r.data[start:r.pos], v); err != nil {
		return &FormatError{File: r.file, Field: field, Offset: int64(start), Want: fmt.Sprintf("a value that fits %T", v), Have: err.Error()}
	}
	return nil
}

// end checks that nothing but blanks is left.
func (r *jsonReader) end() error {
	if r.peek(); r.pos < len(r.data) {
		return r.errorAt(r.pos, "file", "the end of the file")
	}
	return nil
}
