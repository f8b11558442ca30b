package reply

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// TestBFCL renders the answers of the Berkeley function calling leaderboard, v4,
// for every generation and reads them back. The data is not part of this module:
// COFFERDAM_BFCL names the folder bfcl_eval/data of it. testdata/README.md says
// where it is from and what came out.
func TestBFCL(t *testing.T) {
	dir := os.Getenv("COFFERDAM_BFCL")
	if dir == "" {
		t.Skip("COFFERDAM_BFCL is not set")
	}
	var b bfcl
	files, err := filepath.Glob(filepath.Join(dir, "BFCL_v4_*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no BFCL_v4_*.json in %s: %v", dir, err)
	}
	docs := b.documents(t, filepath.Join(dir, "multi_turn_func_doc"))
	for _, file := range files {
		answers := filepath.Join(dir, "possible_answer", filepath.Base(file))
		switch {
		case strings.HasSuffix(file, "format_sensitivity.json"): // ids only
		case strings.Contains(file, "multi_turn"):
			b.multiTurn(t, answers, docs)
		default:
			b.singleTurn(t, file, answers)
		}
	}
	t.Logf("%d functions compiled, %d calls, each for %d templates: %d differences",
		b.functions, b.calls, len(renderers()), b.different)
	t.Logf("left out: %d values that contradict their own schema, %d untyped strings that are JSON of another kind, %d expressions",
		b.contradicting, b.ambiguous, b.expressions)
	if b.calls < 4000 || b.functions < 8000 {
		t.Errorf("want at least 8000 functions and 4000 calls")
	}
}

type bfcl struct {
	functions, calls, different           int
	contradicting, ambiguous, expressions int
}

type bfclFunction struct {
	Name       string
	Parameters json.RawMessage
	schema     bfclSchema
}

// bfclSchema is a schema as BFCL writes them: types are Python's, or Java's.
type bfclSchema struct {
	Type       string
	Properties orderedMap
	Required   []string
}

// orderedMap is a JSON object with its keys in order.
type orderedMap struct {
	keys   []string
	values map[string]json.RawMessage
}

func (m *orderedMap) UnmarshalJSON(data []byte) error {
	m.values = map[string]json.RawMessage{}
	ok := eachMember(string(data), func(key string, val json.RawMessage) bool {
		m.keys = append(m.keys, key)
		m.values[key] = bytes.Clone(val)
		return true
	})
	if !ok {
		return fmt.Errorf("not an object")
	}
	return nil
}

func (s *bfclSchema) property(key string) bfclSchema {
	var p bfclSchema
	if raw, ok := s.Properties.values[key]; ok {
		_ = json.Unmarshal(raw, &p) // a property that is no schema says nothing
	}
	return p
}

func (b *bfcl) compile(t *testing.T, raw json.RawMessage) bfclFunction {
	t.Helper()
	var f bfclFunction
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	if _, err := NewTools(Tool{f.Name, f.Parameters}); err != nil {
		t.Errorf("%s: %v", f.Name, err)
	}
	if err := json.Unmarshal(f.Parameters, &f.schema); err != nil {
		t.Fatal(err)
	}
	b.functions++
	return f
}

func (b *bfcl) documents(t *testing.T, dir string) map[string]bfclFunction {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents in %s: %v", dir, err)
	}
	docs := map[string]bfclFunction{}
	for _, file := range files {
		for _, line := range readLines(t, file) {
			f := b.compile(t, line)
			docs[f.Name] = f
		}
	}
	return docs
}

// singleTurn reads a file of questions that come with functions, and its answers
// if there are any: for each parameter a list of right values.
func (b *bfcl) singleTurn(t *testing.T, file, answers string) {
	functions := map[string]map[string]bfclFunction{}
	for _, line := range readLines(t, file) {
		var q struct {
			ID       string
			Function []json.RawMessage
		}
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		functions[q.ID] = map[string]bfclFunction{}
		for _, raw := range q.Function {
			f := b.compile(t, raw)
			functions[q.ID][f.Name] = f
		}
	}
	if _, err := os.Stat(answers); err != nil {
		return // irrelevance: no call is right
	}
	for _, line := range readLines(t, answers) {
		var a struct {
			ID    string
			Truth []json.RawMessage `json:"ground_truth"`
		}
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		if len(functions[a.ID]) == 0 {
			continue // memory, web search: the answer is a text
		}
		seen := map[string]bool{}
		for variant := range 3 {
			var calls []bfclCall
			for _, truth := range a.Truth {
				var call orderedMap
				if err := json.Unmarshal(truth, &call); err != nil {
					t.Fatalf("%s: %v", a.ID, err)
				}
				for _, name := range call.keys {
					f, ok := functions[a.ID][name]
					if !ok {
						t.Fatalf("%s: no function %s", a.ID, name)
					}
					calls = append(calls, bfclCall{f, b.choose(t, f, call.values[name], variant)})
				}
			}
			if key := fmt.Sprint(calls); !seen[key] {
				seen[key] = true
				b.roundTrip(t, a.ID, calls)
			}
		}
	}
}

type bfclCall struct {
	function bfclFunction
	args     string
}

// choose makes arguments of the right values for each parameter: the first, the
// second, or the third of them. "" stands for leaving the parameter out.
func (b *bfcl) choose(t *testing.T, f bfclFunction, params json.RawMessage, variant int) string {
	t.Helper()
	var list orderedMap
	if err := json.Unmarshal(params, &list); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	var out []string
	for _, key := range list.keys {
		var right []json.RawMessage
		if err := json.Unmarshal(list.values[key], &right); err != nil {
			t.Fatalf("%s.%s: %v", f.Name, key, err)
		}
		right = slices.DeleteFunc(right, func(v json.RawMessage) bool { return string(v) == `""` })
		if len(right) == 0 {
			continue
		}
		val := collapse(right[variant%len(right)], variant)
		if !b.fits(val, &f.schema, key) {
			continue
		}
		out = append(out, jsonText(key)+":"+string(val))
	}
	return "{" + strings.Join(out, ",") + "}"
}

// collapse takes the choice out of nested objects, whose members are lists of
// right values too.
func collapse(v json.RawMessage, variant int) json.RawMessage {
	switch v[0] {
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			return v
		}
		for i := range list {
			list[i] = collapse(list[i], variant)
		}
		return joinJSON('[', ']', list)
	case '{':
		var m orderedMap
		if json.Unmarshal(v, &m) != nil {
			return v
		}
		var members []json.RawMessage
		for _, key := range m.keys {
			val := m.values[key]
			var right []json.RawMessage
			if json.Unmarshal(val, &right) == nil && len(right) > 0 {
				if val = right[variant%len(right)]; string(val) == `""` {
					continue
				}
			}
			members = append(members, append([]byte(jsonText(key)+":"), collapse(val, variant)...))
		}
		return joinJSON('{', '}', members)
	}
	return v
}

func joinJSON(open, end byte, list []json.RawMessage) json.RawMessage {
	out := []byte{open}
	for i, v := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, end)
}

// fits reports whether a value is of its declared type, or null for an optional
// parameter that takes no strings; if not, the wire can't carry it, whoever reads
// it.
func (b *bfcl) fits(v json.RawMessage, schema *bfclSchema, key string) bool {
	typ := schema.property(key).Type
	kind := v[0]
	if kind == '-' || '0' <= kind && kind <= '9' {
		kind = '0'
	}
	ok := true
	switch strings.ToLower(typ) {
	case "string", "char":
		ok = kind == '"'
	case "integer", "long":
		f, err := strconv.ParseFloat(string(v), 64)
		ok = kind == '0' && err == nil && f == float64(int64(f))
	case "float", "double":
		ok = kind == '0'
	case "boolean":
		ok = kind == 't' || kind == 'f'
	case "array", "tuple", "arraylist":
		ok = kind == '['
	case "dict", "hashmap":
		ok = kind == '{'
	default:
		var s string
		if kind == '"' && json.Unmarshal(v, &s) == nil && s != "" && s[0] != '"' && json.Valid([]byte(s)) {
			b.ambiguous++
			return false
		}
	}
	if kind == 'n' && !slices.Contains(schema.Required, key) && !strings.EqualFold(typ, "string") && !strings.EqualFold(typ, "char") {
		ok = true
	}
	if !ok {
		b.contradicting++
	}
	return ok
}

// multiTurn reads answers that are written as Python calls.
func (b *bfcl) multiTurn(t *testing.T, answers string, docs map[string]bfclFunction) {
	for _, line := range readLines(t, answers) {
		var a struct {
			ID    string
			Truth [][]string `json:"ground_truth"`
		}
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		for _, turn := range a.Truth {
			var calls []bfclCall
			for _, text := range turn {
				name, args, ok := parsePythonCall(text, docs)
				if !ok {
					b.expressions++
					t.Logf("%s: %s", a.ID, text)
					continue
				}
				f, known := docs[name]
				if !known {
					t.Fatalf("%s: no function %s", a.ID, name)
				}
				var members []json.RawMessage
				for i, key := range args.keys {
					if v := args.values[args.keys[i]]; b.fits(v, &f.schema, key) {
						members = append(members, append([]byte(jsonText(key)+":"), v...))
					}
				}
				calls = append(calls, bfclCall{f, string(joinJSON('{', '}', members))})
			}
			b.roundTrip(t, a.ID, calls)
		}
	}
}

// roundTrip renders parallel calls with every template and reads them back.
func (b *bfcl) roundTrip(t *testing.T, id string, calls []bfclCall) {
	t.Helper()
	var decl []Tool
	m := chat.Message{Role: chat.RoleAssistant, Content: "Now:"}
	want := "text \"Now:\"\n"
	seen := map[string]bool{}
	for _, c := range calls {
		if !seen[c.function.Name] {
			seen[c.function.Name] = true
			decl = append(decl, Tool{c.function.Name, c.function.Parameters})
		}
		m.ToolCalls = append(m.ToolCalls, chat.ToolCall{Name: c.function.Name, Arguments: json.RawMessage(c.args)})
		want += "call " + c.function.Name + " " + canonical(t, []byte(c.args)) + "\n"
	}
	b.calls += len(calls)
	ts, err := NewTools(decl...)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	for _, r := range renderers() {
		prompt, message := render(t, r, m)
		events := parse(t, ts, prompt, append(message, ids("<|observation|>")...), 4)
		checkDeltas(t, events)
		for i, e := range events {
			if c, ok := e.(ToolCall); ok {
				c.Arguments = json.RawMessage(canonical(t, c.Arguments))
				events[i] = c
			}
		}
		if have := lines(events); have != want {
			b.different++
			t.Errorf("%s, %s\nwant %s\nhave %s", id, r.Template().Name(), want, have)
		}
	}
}

// canonical writes JSON in one way: keys in their order, no blanks, the fewest
// escapes, numbers as the shortest text of the same double unless they are
// integers.
func canonical(t *testing.T, data []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var out strings.Builder
	type level struct {
		object bool
		n      int
	}
	stack := []level{{}}
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		top := &stack[len(stack)-1]
		if delim, ok := tok.(json.Delim); ok && (delim == '}' || delim == ']') {
			stack = stack[:len(stack)-1]
			out.WriteString(delim.String())
			continue
		}
		switch {
		case top.object && top.n%2 == 1:
			out.WriteByte(':')
		case top.n > 0:
			out.WriteByte(',')
		}
		top.n++
		switch tok := tok.(type) {
		case json.Delim:
			out.WriteString(tok.String())
			stack = append(stack, level{object: tok == '{'})
		case string:
			out.WriteString(jsonText(tok))
		case json.Number:
			s := tok.String()
			if f, err := tok.Float64(); err == nil && strings.ContainsAny(s, ".eE") {
				s = strconv.FormatFloat(f, 'g', -1, 64)
			}
			out.WriteString(s)
		default:
			if tok == nil {
				tok = "null"
			}
			fmt.Fprint(&out, tok)
		}
	}
}

func readLines(t *testing.T, file string) []json.RawMessage {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []json.RawMessage
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if len(bytes.TrimSpace(s.Bytes())) > 0 {
			list = append(list, bytes.Clone(s.Bytes()))
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
