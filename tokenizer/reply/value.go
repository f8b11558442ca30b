package reply

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// value turns the text of an argument into JSON, piece by piece.
//
// The text carries no type: a string stands for itself, everything else is
// written as JSON. Where the schema allows one kind only the reading is known at
// once, and a string is passed on as it comes. Where it allows strings and others,
// the text is read as one of the others if it is exactly that, and as a string
// otherwise; it is passed on as soon as it can be no other.
type value struct {
	shape *shape
	mode  valueMode
	// held is what is not in the output yet: the whole text while it is not
	// known to be a string, then at most the beginning of a character.
	held    []byte
	checked int // bytes of held known to fit a number
	// decided is what held was when the value turned out to be a string.
	decided []byte
}

type valueMode uint8

const (
	dropping  valueMode = iota // the call is bad already
	open                       // a string or something else
	verbatim                   // a string
	buffering                  // no string
)

// begin starts a value. A nil shape drops it.
func (v *value) begin(dst []byte, s *shape) []byte {
	v.shape, v.held, v.checked, v.decided = s, v.held[:0], 0, nil
	switch {
	case s == nil:
		v.mode = dropping
	case s.kinds == str:
		v.mode = verbatim
		dst = append(dst, '"')
	case s.kinds&str == 0:
		v.mode = buffering
	default:
		v.mode = open
	}
	return dst
}

// A valueState is a place to go back to in a value.
type valueState struct {
	mode valueMode
	held int    // length
	part []byte // the beginning of a character, if mode is verbatim
}

// state returns the place where the value stands.
func (v *value) state() valueState {
	s := valueState{mode: v.mode, held: len(v.held)}
	if v.mode == verbatim {
		s.part = bytes.Clone(v.held)
	}
	return s
}

// goBack forgets what was written since.
func (v *value) goBack(s valueState) {
	switch {
	case s.mode == verbatim:
		v.held = append(v.held[:0], s.part...)
	case v.decided != nil: // it was not, there
		v.held = append(v.held[:0], v.decided[:s.held]...)
	default:
		v.held = v.held[:s.held]
	}
	v.mode = s.mode
}

// write takes more of the text and adds what is certain of its JSON to dst. It
// reports false if the text is a string and not UTF-8.
func (v *value) write(dst, text []byte) ([]byte, bool) {
	if v.mode == dropping || len(text) == 0 {
		return dst, true
	}
	v.held = append(v.held, text...)
	if v.mode == open && !v.mayBeOther() {
		v.mode = verbatim
		v.decided = bytes.Clone(v.held)
		dst = append(dst, '"')
	}
	if v.mode == verbatim {
		return v.quote(dst)
	}
	return dst, true
}

// close ends the value. fault is Sound, what was mended, or what cannot be;
// have describes the value in the last case.
func (v *value) close(dst []byte) (json []byte, fault Fault, have string) {
	switch v.mode {
	case dropping:
		return dst, Sound, ""
	case open:
		if k := classify(v.held); k&v.shape.kinds != 0 && k != str && !v.isNamedString() {
			return v.plain(dst, v.held)
		}
		dst = append(dst, '"')
		var ok bool
		if dst, ok = v.quote(dst); !ok {
			return dst, BadUTF8, ""
		}
		fallthrough
	case verbatim:
		if len(v.held) > 0 {
			return dst, BadUTF8, ""
		}
		return append(dst, '"'), Sound, ""
	}
	text := bytes.Trim(v.held, blanks)
	k := classify(text)
	if k&v.shape.kinds != 0 {
		return v.plain(dst, text)
	}
	if strict := loosen(text, v.shape.kinds); strict != nil {
		dst, fault, have = v.plain(dst, strict)
		if fault == Sound {
			fault = LooseValue
		}
		return dst, fault, have
	}
	return dst, BadValue, kindText(k)
}

// plain adds text that is JSON. Go's scanner lets bytes that are not UTF-8 pass.
func (v *value) plain(dst, text []byte) ([]byte, Fault, string) {
	if !utf8.Valid(text) {
		return dst, BadUTF8, ""
	}
	return append(dst, text...), Sound, ""
}

// isNamedString reports whether the schema names the text as a string and does
// not name it as something else: "1" under enum ["1", "2"] or an integer.
func (v *value) isNamedString() bool {
	return slices.Contains(v.shape.strings, string(v.held)) && !slices.Contains(v.shape.others, string(v.held))
}

// mayBeOther reports whether the text so far can be the beginning of a value that
// the schema allows and that is no string.
func (v *value) mayBeOther() bool {
	k, t := v.shape.kinds, v.held
	switch c := t[0]; {
	case c == '{':
		return k&object != 0
	case c == '[':
		return k&array != 0
	case c == 't':
		return k&boolean != 0 && strings.HasPrefix("true", string(t[:min(len(t), 5)]))
	case c == 'f':
		return k&boolean != 0 && strings.HasPrefix("false", string(t[:min(len(t), 6)]))
	case c == 'n':
		return k&null != 0 && strings.HasPrefix("null", string(t[:min(len(t), 5)]))
	case c == '-' || '0' <= c && c <= '9':
		for ; v.checked < len(t); v.checked++ {
			if strings.IndexByte("0123456789+-.eE", t[v.checked]) < 0 {
				return false
			}
		}
		return k&number != 0
	}
	return false
}

// quote adds the whole characters of held to dst, escaped as in a JSON string,
// and keeps the rest.
func (v *value) quote(dst []byte) ([]byte, bool) {
	dst, rest, ok := appendEscaped(dst, v.held)
	v.held = v.held[:copy(v.held, rest)]
	return dst, ok
}

// appendEscaped adds the whole characters of text to dst, with the escapes that
// JSON requires and no others, and returns what is left: the beginning of a
// character. It stops and reports false at bytes that are no character.
func appendEscaped(dst, text []byte) (json, rest []byte, ok bool) {
	plain := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			if !utf8.FullRune(text[i:]) {
				return append(dst, text[plain:i]...), text[i:], true
			}
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				return append(dst, text[plain:i]...), nil, false
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, text[plain:i]...)
		i++
		plain = i
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, text[plain:]...), nil, true
}

// classify returns the kind of a JSON text, 0 if it is none. Neither NaN nor
// Infinity, hexadecimal numbers or leading zeros are JSON.
func classify(t []byte) kinds {
	if len(t) == 0 {
		return 0
	}
	switch c := t[0]; {
	case c == '{' && json.Valid(t):
		return object
	case c == '[' && json.Valid(t):
		return array
	case c == '"' && json.Valid(t):
		return str
	case c == '-' || '0' <= c && c <= '9':
		return classifyNumber(t)
	}
	switch string(t[:min(len(t), 6)]) {
	case "null":
		return null
	case "true", "false":
		return boolean
	}
	return 0
}

// classifyNumber tells integers from fractions without computing the number: it
// may have any number of digits. 5.0 and 1e3 are integers, as in JSON schema.
func classifyNumber(t []byte) kinds {
	if c := t[len(t)-1]; c < '0' || c > '9' || !json.Valid(t) {
		return 0
	}
	mantissa, exponent := t, []byte(nil)
	if i := bytes.IndexAny(t, "eE"); i >= 0 {
		mantissa, exponent = t[:i], t[i+1:]
	}
	whole, digits, _ := bytes.Cut(mantissa, []byte("."))
	digits = bytes.TrimRight(digits, "0")
	if len(bytes.Trim(whole, "-0")) == 0 && len(digits) == 0 {
		return integer // some zero
	}
	shift := 0
	if len(exponent) > 0 {
		var err error
		if shift, err = strconv.Atoi(string(exponent)); err != nil {
			if exponent[0] == '-' {
				return fraction
			}
			return integer
		}
	}
	if shift >= 0 {
		if len(digits) <= shift {
			return integer
		}
		return fraction
	}
	zeros := len(whole) - len(bytes.TrimRight(whole, "0"))
	if len(digits) == 0 && zeros >= -shift {
		return integer
	}
	return fraction
}

// loosen reads text that is not JSON of an allowed kind, in the two ways that
// lose nothing: words of Python, and JSON escaped once more, with or without the
// quotes around it. It returns nil if neither fits.
func loosen(text []byte, allowed kinds) []byte {
	if len(text) <= 5 {
		for word, strict := range map[string]string{"true": "true", "false": "false", "none": "null", "null": "null"} {
			if strings.EqualFold(string(text), word) && classify([]byte(strict))&allowed != 0 {
				return []byte(strict)
			}
		}
	}
	if len(text) == 0 {
		return nil
	}
	quoted := text
	if c := text[0]; c == '[' || c == '{' {
		quoted = append(append([]byte{'"'}, text...), '"')
	}
	var inner string
	if json.Unmarshal(quoted, &inner) != nil || strings.ContainsRune(inner, utf8.RuneError) {
		return nil // U+FFFD stands for what Unmarshal could not represent
	}
	strict := bytes.Trim([]byte(inner), blanks)
	if classify(strict)&allowed == 0 {
		return nil
	}
	return strict
}

// kindText names a set of kinds for an error.
func kindText(k kinds) string {
	if k == 0 {
		return "text that is no JSON value"
	}
	var names []string
	for _, n := range [...]struct {
		kinds
		name string
	}{
		{number, "a number"}, {integer, "an integer"}, {boolean, "a boolean"}, {str, "a string"},
		{array, "an array"}, {object, "an object"}, {null, "null"},
	} {
		if k&n.kinds == n.kinds {
			names = append(names, n.name)
			k &^= n.kinds
		}
	}
	if k&fraction != 0 {
		names = append(names, "a fraction")
	}
	return strings.Join(names, " or ")
}
