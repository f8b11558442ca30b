package chat

import (
	"math"
	"strconv"
	"strings"
)

// appendPython prints a value as the templates' tojson filter does: Python's
// json.dumps with ensure_ascii=False. Keys keep their order, ", " and ": "
// separate, nothing is escaped for HTML.
func appendPython(dst []byte, v *value) []byte { return appendJSON(dst, v, appendPythonNumber) }

// appendWritten prints a value as JSON with its numbers as they were written.
func appendWritten(dst []byte, v *value) []byte {
	return appendJSON(dst, v, func(dst []byte, s string) []byte { return append(dst, s...) })
}

func appendJSON(dst []byte, v *value, number func([]byte, string) []byte) []byte {
	switch v.kind {
	case '{':
		dst = append(dst, '{')
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendPythonString(dst, v.keys[i])
			dst = append(dst, ": "...)
			dst = appendJSON(dst, &v.list[i], number)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendJSON(dst, &v.list[i], number)
		}
		return append(dst, ']')
	case '"':
		return appendPythonString(dst, v.text)
	case '0':
		return number(dst, v.text)
	case 't':
		return append(dst, "true"...)
	case 'f':
		return append(dst, "false"...)
	default:
		return append(dst, "null"...)
	}
}

// appendPythonString escapes quote, backslash and the control characters below
// U+0020, and nothing else.
func appendPythonString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[plain:i]...)
		plain = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[plain:]...), '"')
}

// appendPythonNumber prints a number as Python does after reading it: integers
// of any size digit for digit, everything with a point or an exponent as the
// repr of a float64, the shortest digits that read back the same.
func appendPythonNumber(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			s = "0" // Python's integers have no sign of zero
		}
		return append(dst, s...)
	}
	f, _ := strconv.ParseFloat(s, 64) // out of range is infinite, as in Python
	if math.IsInf(f, 0) {
		if f < 0 {
			dst = append(dst, '-')
		}
		return append(dst, "Infinity"...)
	}
	// repr writes an exponent below 1e-4 and from 1e16 on.
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	for _, c := range dst[from:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// strip removes white space from both ends as Python's str.strip does: what
// Unicode calls white space, and the four separators U+001C to U+001F.
func strip(s string) string {
	return strings.TrimFunc(s, isPythonSpace)
}

func isPythonSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || '\t' <= r && r <= '\r' || 0x1C <= r && r <= 0x1F
	case r < 0x2000:
		return r == 0x85 || r == 0xA0 || r == 0x1680
	default:
		return r <= 0x200A || r == 0x2028 || r == 0x2029 || r == 0x202F || r == 0x205F || r == 0x3000
	}
}
