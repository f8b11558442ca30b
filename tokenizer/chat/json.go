package chat

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A value is a JSON value with the order of its keys and the digits of its
// numbers. encoding/json keeps neither, and both end up in the prompt.
type value struct {
	kind byte     // one of { [ " 0 t f n, the first byte of such a value
	text string   // a decoded string, or a number as written
	keys []string // of an object
	list []value  // elements of an array, or values of an object, one per key
}

var errJSON = errors.New("not valid JSON")

// parseJSON reads one JSON value. A key that occurs twice has its first place
// and its last value, as in the reference (a Python dict). Half a surrogate pair
// and bytes that are not UTF-8 become U+FFFD.
func parseJSON(data []byte) (value, error) {
	if !json.Valid(data) {
		return value{}, errJSON
	}
	p := jsonParser{data: data}
	return p.value(), nil
}

// A jsonParser walks JSON that is known to be valid (and, encoding/json says, not
// nested deeper than 10,000).
type jsonParser struct {
	data []byte
	pos  int
}

// peek returns the next byte that is not white space.
func (p *jsonParser) peek() byte {
	for {
		switch c := p.data[p.pos]; c {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return c
		}
	}
}

func (p *jsonParser) value() value {
	switch c := p.peek(); c {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"':
		return value{kind: '"', text: p.str()}
	case 't', 'n':
		p.pos += len("true")
		return value{kind: c}
	case 'f':
		p.pos += len("false")
		return value{kind: c}
	default:
		return p.number()
	}
}

func (p *jsonParser) object() value {
	v := value{kind: '{'}
	var index map[string]int // made when a linear search would be slow
	for p.pos++; p.peek() != '}'; {
		key := p.str()
		p.peek()
		p.pos++ // colon
		val := p.value()
		if p.peek() == ',' {
			p.pos++
		}
		if at := v.find(key, index); at >= 0 {
			v.list[at] = val
			continue
		}
		v.keys = append(v.keys, key)
		v.list = append(v.list, val)
		const linear = 16
		if n := len(v.keys); n == linear {
			index = make(map[string]int, 2*n)
			for i, k := range v.keys {
				index[k] = i
			}
		} else if n > linear {
			index[key] = n - 1
		}
	}
	p.pos++
	return v
}

func (v *value) find(key string, index map[string]int) int {
	if index != nil {
		if i, ok := index[key]; ok {
			return i
		}
		return -1
	}
	for i, k := range v.keys {
		if k == key {
			return i
		}
	}
	return -1
}

// get returns the value of a key of an object, nil if it has none or v is not an
// object.
func (v *value) get(key string) *value {
	if i := v.find(key, nil); i >= 0 {
		return &v.list[i]
	}
	return nil
}

func (p *jsonParser) array() value {
	v := value{kind: '['}
	for p.pos++; p.peek() != ']'; {
		v.list = append(v.list, p.value())
		if p.peek() == ',' {
			p.pos++
		}
	}
	p.pos++
	return v
}

func (p *jsonParser) number() value {
	from := p.pos
	for p.pos < len(p.data) && strings.IndexByte("+-.eE0123456789", p.data[p.pos]) >= 0 {
		p.pos++
	}
	return value{kind: '0', text: string(p.data[from:p.pos])}
}

func (p *jsonParser) str() string {
	p.peek()
	p.pos++
	from := p.pos
	for p.data[p.pos] != '"' && p.data[p.pos] != '\\' {
		p.pos++
	}
	s := p.data[from:p.pos]
	if p.data[p.pos] == '"' {
		p.pos++
		return strings.ToValidUTF8(string(s), "\uFFFD")
	}
	b := append(make([]byte, 0, len(s)+64), s...)
	for p.data[p.pos] != '"' {
		if p.data[p.pos] == '\\' {
			b = p.escape(b)
			continue
		}
		b = append(b, p.data[p.pos])
		p.pos++
	}
	p.pos++
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// escape decodes the escape sequence at the current position.
func (p *jsonParser) escape(b []byte) []byte {
	c := p.data[p.pos+1]
	p.pos += 2
	switch c {
	case 'b':
		return append(b, '\b')
	case 'f':
		return append(b, '\f')
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'u':
		r := p.hex4(p.pos)
		p.pos += 4
		if utf16.IsSurrogate(r) {
			second := rune(-1)
			if p.data[p.pos] == '\\' && p.data[p.pos+1] == 'u' {
				second = p.hex4(p.pos + 2)
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				p.pos += len(`\uXXXX`)
			}
		}
		return utf8.AppendRune(b, r)
	default: // quote, backslash, slash
		return append(b, c)
	}
}

func (p *jsonParser) hex4(at int) rune {
	n, _ := strconv.ParseUint(string(p.data[at:at+4]), 16, 32) // digits are known to be valid
	return rune(n)
}
