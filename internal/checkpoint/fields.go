package checkpoint

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// fields reads values out of a JSON object and keeps the first fault of each of
// two kinds. A value that cannot be read (err) leaves no model to speak of; a
// value that reads well but cannot be run (refusal) still leaves an inventory.
type fields struct {
	m      map[string]any
	prefix string
	faults *faults
}

type faults struct {
	err, refusal *UnsupportedError
}

func (f *faults) fail(field, value, supported string) {
	if f.err == nil {
		f.err = &UnsupportedError{Field: field, Value: value, Supported: supported}
	}
}

func (f *faults) refuse(field, value, supported string) {
	if f.refusal == nil {
		f.refusal = &UnsupportedError{Field: field, Value: value, Supported: supported}
	}
}

func (f fields) fail(name string, v any, supported string) {
	f.faults.fail(f.prefix+name, show(v), supported)
}

func (f fields) refuse(name string, v any, supported string) {
	f.faults.refuse(f.prefix+name, show(v), supported)
}

// absent is how show spells a field that is not there.
type absent struct{}

// show spells a JSON value for an error, cut to a line's length.
func show(v any) string {
	if _, ok := v.(absent); ok {
		return "absent"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return jsonKind(v)
	}
	if len(b) > 60 {
		return strings.ToValidUTF8(string(b[:57]), "") + "..."
	}
	return string(b)
}

// get returns a field's value; null counts as absent.
func (f fields) get(name string) (any, bool) {
	v := f.m[name]
	return v, v != nil
}

func (f fields) has(name string) bool {
	_, ok := f.get(name)
	return ok
}

// optInt reads an integer of [lo, hi], def if absent.
func (f fields) optInt(name string, def, lo, hi int) int {
	v, ok := f.get(name)
	if !ok {
		return def
	}
	n, ok := toInt(v)
	if !ok || n < int64(lo) || n > int64(hi) {
		f.fail(name, v, fmt.Sprintf("an integer from %d to %d", lo, hi))
		return def
	}
	return int(n)
}

// int reads an integer of [lo, hi] that must be there.
func (f fields) int(name string, lo, hi int) int {
	if !f.has(name) {
		f.fail(name, absent{}, fmt.Sprintf("an integer from %d to %d", lo, hi))
		return lo
	}
	return f.optInt(name, lo, lo, hi)
}

func toInt(v any) (int64, bool) {
	num, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(num.String(), 10, 64)
	return n, err == nil
}

// float reads a finite number of (lo, hi] that must be there.
func (f fields) float(name string, lo, hi float64) float64 {
	v, ok := f.get(name)
	if !ok {
		f.fail(name, absent{}, fmt.Sprintf("a number above %g, at most %g", lo, hi))
		return hi
	}
	x, ok := toFloat(v)
	if !ok || x <= lo || x > hi {
		f.fail(name, v, fmt.Sprintf("a number above %g, at most %g", lo, hi))
		return hi
	}
	return x
}

func toFloat(v any) (float64, bool) {
	num, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := num.Float64()
	return x, err == nil && !math.IsInf(x, 0)
}

func (f fields) optBool(name string, def bool) bool {
	v, ok := f.get(name)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		f.fail(name, v, "true or false")
		return def
	}
	return b
}

// wantBool refuses a boolean other than want; absent is want.
func (f fields) wantBool(name string, want bool) {
	if f.optBool(name, want) != want {
		f.refuse(name, !want, strconv.FormatBool(want))
	}
}

// wantString refuses a string that is not in the list; absent is fine.
func (f fields) wantString(name string, want ...string) {
	v, ok := f.get(name)
	if !ok {
		return
	}
	s, ok := v.(string)
	if !ok {
		f.fail(name, v, strings.Join(want, " or "))
		return
	}
	for _, w := range want {
		if s == w {
			return
		}
	}
	f.refuse(name, s, strings.Join(want, " or "))
}

// wantInt refuses an integer other than want; absent is fine.
func (f fields) wantInt(name string, want int) {
	if n := f.optInt(name, want, math.MinInt32, math.MaxInt32); n != want {
		f.refuse(name, n, strconv.Itoa(want))
	}
}

// wantAbsent refuses a field that is there and not null.
func (f fields) wantAbsent(name string) {
	if v, ok := f.get(name); ok {
		f.refuse(name, v, "absent or null")
	}
}

// object returns a nested object; ok is false if it is absent (or no object,
// which is a fault).
func (f fields) object(name string) (sub fields, ok bool) {
	v, ok := f.get(name)
	if !ok {
		return fields{}, false
	}
	m, ok := v.(map[string]any)
	if !ok {
		f.fail(name, v, "an object")
		return fields{}, false
	}
	return fields{m: m, prefix: f.prefix + name + ".", faults: f.faults}, true
}

// words reads a list of n strings, each a key of meaning, into its values. ok is
// false if the field is absent.
func (f fields) words(name string, n int, meaning map[string]bool, supported string) (out []bool, ok bool) {
	v, ok := f.get(name)
	if !ok {
		return nil, false
	}
	out = make([]bool, n)
	list, isList := v.([]any)
	if !isList || len(list) != n {
		have := v
		if isList {
			have = fmt.Sprintf("a list of %d", len(list))
		}
		f.fail(name, have, fmt.Sprintf("a list of %d, one per layer", n))
		return out, true
	}
	for i, v := range list {
		s, isString := v.(string)
		m, known := meaning[s]
		if !isString || !known {
			f.fail(fmt.Sprintf("%s[%d]", name, i), v, supported)
			return out, true
		}
		out[i] = m
	}
	return out, true
}

// ids reads one token id or a list of them.
func (f fields) ids(name string, vocab int) []int32 {
	v, ok := f.get(name)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) > 1024 {
		f.fail(name, fmt.Sprintf("a list of %d", len(list)), "at most 1024 ids")
		return nil
	}
	var out []int32
	for _, v := range list {
		n, ok := toInt(v)
		if !ok || n < 0 || n >= int64(vocab) {
			f.fail(name, v, fmt.Sprintf("ids from 0 to %d", vocab-1))
			return nil
		}
		out = append(out, int32(n))
	}
	return out
}
