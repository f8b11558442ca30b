package reply

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// kinds is a set of kinds of JSON values.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	integer  // a number without a fractional part
	fraction // any other number
	str
	array
	object

	number  = integer | fraction
	anyKind = null | boolean | number | str | array | object
)

// shape is what a schema says about one value: the kinds it may be of, and the
// values that enum and const name. A parser needs no more than that: which of the
// readings of a text is meant. Whether a number is in range is for the tool.
type shape struct {
	kinds   kinds
	strings []string // named strings
	others  []string // named values of other kinds, as JSON
}

var anything = &shape{kinds: anyKind}

// or returns what either schema allows.
func (s shape) or(o shape) shape {
	return shape{s.kinds | o.kinds, join(s.strings, o.strings), join(s.others, o.others)}
}

// and returns what both schemas allow. If that is nothing, the schemas say
// nothing sensible and everything is allowed.
func (s shape) and(o shape) shape {
	k := s.kinds & o.kinds
	if k == 0 {
		k = anyKind
	}
	return shape{k, join(s.strings, o.strings), join(s.others, o.others)}
}

func join(a, b []string) []string {
	return append(a[:len(a):len(a)], b...)
}

// typeNames are the types of JSON schema, and names that other dialects use for
// them; in lower case. A name that is not listed says nothing.
var typeNames = map[string]kinds{
	"null": null, "none": null,
	"boolean": boolean, "bool": boolean,
	"integer": integer, "int": integer, "long": integer, "short": integer, "byte": integer, "bigint": integer,
	"number": number, "float": number, "double": number,
	"string": str, "str": str, "text": str, "char": str,
	"array": array, "list": array, "tuple": array, "arraylist": array,
	"object": object, "dict": object, "map": object, "hashmap": object,
}

// keywords that only make sense for one kind; they speak where type is missing.
var hints = []struct {
	keyword string
	kinds   kinds
}{
	{"properties", object}, {"additionalProperties", object}, {"required", object},
	{"items", array}, {"prefixItems", array}, {"minItems", array}, {"maxItems", array},
	{"pattern", str}, {"minLength", str}, {"maxLength", str}, {"format", str},
	{"minimum", number}, {"maximum", number}, {"exclusiveMinimum", number}, {"exclusiveMaximum", number}, {"multipleOf", number},
}

// compiler turns the parameters of one tool into shapes. References are resolved
// within the schema; one that leads into itself, or out of the document, says
// nothing.
type compiler struct {
	root  any
	known map[string]*shape // by reference; nil while it is being resolved
	seen  map[string]bool   // references followed for properties
	err   *SchemaError

	// Whether something forbids parameters that are not listed, and whether
	// something else allows some.
	closed, open bool
}

// compile reads the parameters of a tool.
func compile(schema json.RawMessage) (*tool, *SchemaError) {
	t := &tool{params: map[string]*shape{}, extra: anything} // no schema says nothing
	if text := bytes.Trim(schema, " \t\r\n"); len(text) == 0 || string(text) == "null" {
		return t, nil
	}
	c := &compiler{known: map[string]*shape{}, seen: map[string]bool{}}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if err := d.Decode(&c.root); err != nil || !json.Valid(schema) { // More takes a stray bracket for an end
		return nil, &SchemaError{Want: "a JSON object", Have: "no JSON"}
	}
	root, ok := c.root.(map[string]any)
	if !ok {
		return nil, &SchemaError{Want: "a JSON object", Have: kindName(c.root)}
	}
	c.parameters(t, root, "", true)
	if c.closed && !c.open {
		t.extra = nil
	}
	for name, p := range t.params {
		t.longest = max(t.longest, len(name))
		if p.kinds&str == 0 && !slices.Contains(t.required, name) {
			p.kinds |= null // models write null for what they leave out
		}
	}
	return t, c.err
}

// parameters collects what an object schema, and those it is composed of, say
// about the properties of the object. must is whether the schema applies in any
// case.
func (c *compiler) parameters(t *tool, node map[string]any, path string, must bool) {
	if props, ok := node["properties"]; ok {
		list, ok := props.(map[string]any)
		if !ok {
			c.fail(path+"/properties", "an object", kindName(props))
			return
		}
		for _, name := range slices.Sorted(maps.Keys(list)) {
			s := c.shape(list[name], path+"/properties/"+escapePointer.Replace(name))
			if old := t.params[name]; old != nil {
				s = old.or(s)
			}
			t.params[name] = &s
		}
	}
	if required, ok := node["required"].([]any); ok && must {
		for _, r := range required {
			if name, ok := r.(string); ok {
				t.required = append(t.required, name)
			}
		}
	}
	switch extra := node["additionalProperties"].(type) {
	case bool:
		c.closed = c.closed || !extra
	case map[string]any:
		s := c.shape(extra, path+"/additionalProperties")
		t.extra, c.open = &s, true
	}
	if node["patternProperties"] != nil {
		c.open = true
	}
	if ref, ok := node["$ref"].(string); ok && !c.seen[ref] {
		c.seen[ref] = true
		if n, ok := c.resolve(ref, path).(map[string]any); ok {
			c.parameters(t, n, strings.TrimPrefix(ref, "#"), must)
		}
	}
	for _, keyword := range [...]string{"allOf", "anyOf", "oneOf"} {
		list, _ := node[keyword].([]any)
		for i, n := range list {
			if n, ok := n.(map[string]any); ok {
				c.parameters(t, n, path+"/"+keyword+"/"+strconv.Itoa(i), must && keyword == "allOf")
			}
		}
	}
}

// shape reads the schema of one value.
func (c *compiler) shape(schema any, path string) shape {
	node, ok := schema.(map[string]any)
	if !ok { // true, false, or no schema at all
		return *anything
	}
	s := *anything
	if ref, ok := node["$ref"].(string); ok {
		s = s.and(c.reference(ref, path))
	}
	s = s.and(typed(node["type"]))
	if values, ok := node["enum"].([]any); ok && len(values) > 0 {
		s = s.and(named(values...))
	}
	if value, ok := node["const"]; ok {
		s = s.and(named(value))
	}
	if list, ok := node["allOf"].([]any); ok {
		for i, n := range list {
			s = s.and(c.shape(n, path+"/allOf/"+strconv.Itoa(i)))
		}
	}
	for _, keyword := range [...]string{"anyOf", "oneOf"} {
		list, _ := node[keyword].([]any)
		var either shape
		for i, n := range list {
			either = either.or(c.shape(n, path+"/"+keyword+"/"+strconv.Itoa(i)))
		}
		if len(list) > 0 {
			s = s.and(either)
		}
	}
	if s.kinds == anyKind && node["type"] == nil {
		for _, h := range hints {
			if _, ok := node[h.keyword]; ok {
				s.kinds = h.kinds
				break
			}
		}
	}
	if nullable, _ := node["nullable"].(bool); nullable {
		s.kinds |= null
	}
	return s
}

// typed reads the value of the keyword type: a name or a list of names.
func typed(v any) shape {
	var s shape
	switch v := v.(type) {
	case string:
		s.kinds = typeNames[strings.ToLower(v)]
	case []any:
		for _, name := range v {
			n, _ := name.(string)
			k := typeNames[strings.ToLower(n)]
			if k == 0 {
				return *anything
			}
			s.kinds |= k
		}
	}
	if s.kinds == 0 {
		return *anything
	}
	return s
}

// named is the schema that allows just these values.
func named(values ...any) shape {
	var s shape
	for _, v := range values {
		switch v := v.(type) {
		case string:
			s.kinds |= str
			s.strings = append(s.strings, v)
		case nil:
			s.kinds |= null
			s.others = append(s.others, "null")
		case bool:
			s.kinds |= boolean
			s.others = append(s.others, strconv.FormatBool(v))
		case json.Number:
			s.kinds |= number
			s.others = append(s.others, v.String())
		case []any:
			s.kinds |= array
		default:
			s.kinds |= object
		}
	}
	return s
}

// reference reads the schema that a reference leads to, once.
func (c *compiler) reference(ref, path string) shape {
	if s, ok := c.known[ref]; ok {
		if s == nil {
			return *anything
		}
		return *s
	}
	c.known[ref] = nil
	s := *anything
	if n := c.resolve(ref, path); n != nil {
		s = c.shape(n, strings.TrimPrefix(ref, "#"))
	}
	c.known[ref] = &s
	return s
}

// resolve follows a reference within the document; nil if it leads elsewhere.
func (c *compiler) resolve(ref, path string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return nil
	}
	node := c.root
	for pointer != "" {
		var step string
		step, pointer, _ = strings.Cut(pointer[1:], "/")
		if pointer != "" {
			pointer = "/" + pointer
		}
		if node = child(node, unescapePointer.Replace(step)); node == nil {
			c.fail(path+"/$ref", "a reference to a place in the schema", "one to nowhere")
			return nil
		}
	}
	return node
}

// child is one step of a JSON pointer.
func child(node any, step string) any {
	switch node := node.(type) {
	case map[string]any:
		return node[step]
	case []any:
		if i, err := strconv.Atoi(step); err == nil && 0 <= i && i < len(node) {
			return node[i]
		}
	}
	return nil
}

var (
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~0", "~", "~1", "/")
)

// fail notes the first thing that is wrong.
func (c *compiler) fail(path, want, have string) {
	if c.err == nil {
		c.err = &SchemaError{Path: path, Want: want, Have: have}
	}
}

// kindName names the kind of a decoded value.
func kindName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}
