package reply

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// parsePythonCall reads a call as the multi-turn answers of BFCL write them:
// name(literal, keyword=literal). Positional arguments take the parameters of the
// function in their order.
func parsePythonCall(text string, docs map[string]bfclFunction) (name string, args orderedMap, ok bool) {
	name, rest, found := strings.Cut(text, "(")
	if !found || !strings.HasSuffix(rest, ")") {
		return "", args, false
	}
	name = name[strings.LastIndexByte(name, '.')+1:]
	p := python{s: strings.TrimSuffix(rest, ")")}
	params := docs[name]
	args.values = map[string]json.RawMessage{}
	for p.blanks(); p.s != ""; p.blanks() {
		key := p.word()
		p.blanks()
		if key == "" || !p.take("=") {
			p.s = key + p.s
			if len(args.keys) >= len(params.schema.Properties.keys) {
				return "", args, false
			}
			key = params.schema.Properties.keys[len(args.keys)]
		}
		v, ok := p.literal()
		if !ok {
			return "", args, false
		}
		args.keys = append(args.keys, key)
		args.values[key] = v
		if p.blanks(); p.s != "" && !p.take(",") {
			return "", args, false
		}
	}
	return name, args, true
}

// python reads literals off the front of s and writes them as JSON.
type python struct{ s string }

func (p *python) blanks() { p.s = strings.TrimLeft(p.s, " \n\t") }

func (p *python) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.s, prefix)
	p.s = rest
	return ok
}

func (p *python) word() string {
	n := strings.IndexFunc(p.s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if n < 0 {
		n = len(p.s)
	}
	w := p.s[:n]
	p.s = p.s[n:]
	return w
}

func (p *python) literal() (json.RawMessage, bool) {
	p.blanks()
	if p.s == "" {
		return nil, false
	}
	switch c := p.s[0]; {
	case c == '\'' || c == '"':
		s, ok := p.text()
		return json.RawMessage(jsonText(s)), ok
	case c == '[':
		return p.list("[", "]", false)
	case c == '(':
		return p.list("(", ")", false)
	case c == '{':
		return p.list("{", "}", true)
	}
	for word, val := range map[string]string{"True": "true", "False": "false", "None": "null"} {
		if p.take(word) {
			return json.RawMessage(val), true
		}
	}
	n := strings.IndexFunc(p.s, func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) })
	if n < 0 {
		n = len(p.s)
	}
	v := json.RawMessage(p.s[:n])
	p.s = p.s[n:]
	return v, json.Valid(v)
}

func (p *python) list(open, end string, pairs bool) (json.RawMessage, bool) {
	p.take(open)
	var items []json.RawMessage
	for p.blanks(); !p.take(end); p.blanks() {
		v, ok := p.literal()
		if !ok {
			return nil, false
		}
		if pairs {
			p.blanks()
			if v[0] != '"' || !p.take(":") {
				return nil, false
			}
			member, ok := p.literal()
			if !ok {
				return nil, false
			}
			v = append(append(v, ':'), member...)
		}
		items = append(items, v)
		if p.blanks(); !strings.HasPrefix(p.s, end) && !p.take(",") {
			return nil, false
		}
	}
	if pairs {
		return joinJSON('{', '}', items), true
	}
	return joinJSON('[', ']', items), true
}

func (p *python) text() (string, bool) {
	quote := p.s[0]
	var b strings.Builder
	for i := 1; i < len(p.s); i++ {
		switch c := p.s[i]; c {
		case quote:
			p.s = p.s[i+1:]
			return b.String(), utf8.ValidString(b.String())
		case '\\':
			i++
			if i == len(p.s) {
				return "", false
			}
			switch p.s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '\\', '\'', '"':
				b.WriteByte(p.s[i])
			case 'u':
				r, err := strconv.ParseUint(p.s[i+1:min(i+5, len(p.s))], 16, 16)
				if err != nil {
					return "", false
				}
				b.WriteRune(rune(r))
				i += 4
			default:
				return "", false
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func TestParsePythonCall(t *testing.T) {
	f := bfclFunction{Name: "f"}
	if err := json.Unmarshal([]byte(`{"type":"dict","properties":{"a":{"type":"string"},"b":{}}}`), &f.schema); err != nil {
		t.Fatal(err)
	}
	docs := map[string]bfclFunction{"f": f}
	for text, want := range map[string]string{
		`f()`:                      `{}`,
		`f('x', b=-1.5)`:           `{"a":"x","b":-1.5}`,
		`m.f(b = [True, None,])`:   `{"b":[true,null]}`,
		`f("it's", {'k': (1, 2)})`: `{"a":"it's","b":{"k":[1,2]}}`,
		`f(a='x\'\n"')`:            `{"a":"x'\n\""}`,
		`f(a=g(1))`:                "",
		`f('x', 1, 2)`:             "",
	} {
		_, args, ok := parsePythonCall(text, docs)
		have := ""
		if ok {
			var members []json.RawMessage
			for _, k := range args.keys {
				members = append(members, append([]byte(jsonText(k)+":"), args.values[k]...))
			}
			have = string(joinJSON('{', '}', members))
		}
		if have != want {
			t.Errorf("%s: want %q, have %q", text, want, have)
		}
	}
}
