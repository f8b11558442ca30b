package agent

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A schema is the JSON schema of a struct, and what decoding checks of it that
// encoding/json does not.
type schema struct {
	json     json.RawMessage
	names    []string // properties, in the order of the fields
	required []string
}

func inferSchema[In any]() (*schema, error) {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the arguments are a %v, want a struct", t)
	}
	w := schemaWriter{}
	s := &schema{}
	var err error
	s.names, s.required, err = w.object(t)
	s.json = w.out.Bytes()
	return s, err
}

// schemaWriter prints schemas with properties in the order of the fields, which a
// map would lose.
type schemaWriter struct {
	out   bytes.Buffer
	above []reflect.Type // structs that are being printed
}

var (
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// value prints the schema of a type, with a description if there is one.
func (w *schemaWriter) value(t reflect.Type, description string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	simple := func(kind string) error {
		w.out.WriteString(`{"type":"` + kind + `"`)
		w.end(description)
		return nil
	}
	switch {
	case t == rawType || t.Kind() == reflect.Interface && t.NumMethod() == 0:
		w.out.WriteString("{")
		if description != "" {
			w.out.WriteString(`"description":` + quote(description))
		}
		w.out.WriteString("}")
		return nil
	case reflect.PointerTo(t).Implements(textType):
		return simple("string")
	case reflect.PointerTo(t).Implements(jsonType):
		return fmt.Errorf("%v reads JSON in its own way", t)
	}
	switch t.Kind() {
	case reflect.String:
		return simple("string")
	case reflect.Bool:
		return simple("boolean")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return simple("integer")
	case reflect.Float32, reflect.Float64:
		return simple("number")
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return fmt.Errorf("%v is base64 in JSON, which no model writes", t)
		}
		w.out.WriteString(`{"type":"array","items":`)
		if err := w.value(t.Elem(), ""); err != nil {
			return err
		}
		w.end(description)
		return nil
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return fmt.Errorf("%v has keys that are no strings", t)
		}
		w.out.WriteString(`{"type":"object","additionalProperties":`)
		if err := w.value(t.Elem(), ""); err != nil {
			return err
		}
		w.end(description)
		return nil
	case reflect.Struct:
		if _, _, err := w.object(t); err != nil {
			return err
		}
		w.out.Truncate(w.out.Len() - 1)
		w.end(description)
		return nil
	}
	return fmt.Errorf("%v has no JSON schema", t)
}

func (w *schemaWriter) end(description string) {
	if description != "" {
		w.out.WriteString(`,"description":` + quote(description))
	}
	w.out.WriteString("}")
}

// object prints the schema of a struct and returns its properties.
func (w *schemaWriter) object(t reflect.Type) (names, required []string, err error) {
	if slices.Contains(w.above, t) {
		return nil, nil, fmt.Errorf("%v contains itself", t)
	}
	w.above = append(w.above, t)
	defer func() { w.above = w.above[:len(w.above)-1] }()
	w.out.WriteString(`{"type":"object","properties":{`)
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			if f.Type.Kind() != reflect.Struct {
				return nil, nil, fmt.Errorf("%v embeds %v, which is no struct", t, f.Type)
			}
			continue // its fields are visible themselves
		case len(f.Index) > 1 && !inlined(t, f.Index):
			continue // of a field that has a name, or none at all
		case slices.Contains(strings.Split(options, ","), "string"):
			return nil, nil, fmt.Errorf("%v.%s has the option string", t, f.Name)
		}
		if !tagged || name == "" {
			name = f.Name
		}
		if slices.Contains(names, name) {
			return nil, nil, fmt.Errorf("%v has two fields of the name %s", t, name)
		}
		if len(names) > 0 {
			w.out.WriteString(",")
		}
		w.out.WriteString(quote(name) + ":")
		if err := w.value(f.Type, f.Tag.Get("jsonschema")); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		names = append(names, name)
		optional := f.Type.Kind() == reflect.Pointer || slices.ContainsFunc(strings.Split(options, ","), func(o string) bool {
			return o == "omitempty" || o == "omitzero"
		})
		if !optional {
			required = append(required, name)
		}
	}
	w.out.WriteString("}")
	if len(required) > 0 {
		list := make([]string, len(required))
		for i, name := range required {
			list[i] = quote(name)
		}
		w.out.WriteString(`,"required":[` + strings.Join(list, ",") + "]")
	}
	w.out.WriteString("}")
	return names, required, nil
}

// inlined reports whether all structs on the way to a field of an embedded struct
// are inlined by encoding/json.
func inlined(t reflect.Type, index []int) bool {
	for i := 1; i < len(index); i++ {
		f := t.FieldByIndex(index[:i])
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			return false
		}
	}
	return true
}

// quote prints a JSON string as it is, without escapes for HTML.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// decode reads arguments into the struct that the schema is of.
func (s *schema) decode(arguments json.RawMessage, in any) error {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &given); err != nil {
		return &ArgumentError{Want: "an object", Have: "something else"}
	}
	for _, name := range s.required {
		if v, ok := given[name]; !ok || string(v) == "null" {
			return &ArgumentError{Field: name, Want: "a value", Have: "none"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(s.names, name) { // encoding/json takes Path for path
			return &ArgumentError{Field: name, Want: "no such property", Have: "a value"}
		}
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if err == nil {
		if _, err := d.Token(); err == io.EOF {
			return nil
		}
		return &ArgumentError{Want: "one object", Have: "more"}
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &ArgumentError{Field: e.Field, Want: "a value for " + e.Type.String(), Have: e.Value}
	}
	return &ArgumentError{Want: "what the schema says", Have: strings.TrimPrefix(err.Error(), "json: ")}
}
