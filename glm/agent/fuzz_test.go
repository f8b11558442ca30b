package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// FuzzTranscript opens any file as a transcript: it is taken up, less a line
// without its end, and taken up again to the same prompt; or it is refused with
// its line, and left as it is.
func FuzzTranscript(f *testing.F) {
	m, pool := openFixture(f, glm.PoolConfig{})
	name := filepath.Join(f.TempDir(), "transcript")
	config := Config{Tools: sagaTools(), System: "Be \xff brief.", Transcript: name}
	a, err := New(m, pool, config)
	if err != nil {
		f.Fatal(err)
	}
	s := &script{model: m}
	a.generate = s.generate
	if err := errors.Join(play(a, s), a.Close()); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	f.Add(whole)
	for i := range lines {
		f.Add(bytes.Join(lines[:i], nil))
		f.Add(slices.Concat(bytes.Join(lines[:i], nil), []byte(`{"user":"More."}`+"\n"), bytes.Join(lines[i:], nil)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := New(m, pool, config)
		kept, _ := os.ReadFile(name)
		if err != nil {
			if e, ok := errors.AsType[*TranscriptError](err); !ok || e.Line < 1 || e.Want == "" || e.Have == "" {
				t.Fatalf("%#v", err)
			}
			if !bytes.Equal(kept, data) {
				t.Fatal("refused, and changed")
			}
			return
		}
		end := bytes.LastIndexByte(data, '\n') + 1
		if !bytes.HasPrefix(kept, data[:end]) || end > 0 && len(kept) != end {
			t.Fatalf("of %q there is left %q", data, kept)
		}
		prompt, err := a.Prompt()
		if err2 := a.Close(); err2 != nil {
			t.Fatal(err2)
		}
		again, err2 := New(m, pool, config)
		if err2 != nil {
			t.Fatalf("taken up once, then %v", err2)
		}
		defer again.Close()
		second, err2 := again.Prompt()
		if !slices.Equal(prompt, second) || (err == nil) != (err2 == nil) {
			t.Fatalf("%d ids and %v, then %d and %v", len(prompt), err, len(second), err2)
		}
	})
}

// FuzzArguments calls a tool with any text for arguments, as a model may: they
// are decoded as JSON means them, or an argument is named.
func FuzzArguments(f *testing.F) {
	type arguments struct {
		Path  string         `json:"path"`
		Lines []int          `json:"lines,omitempty"`
		Home  *place         `json:"home,omitempty"`
		More  map[string]any `json:"more,omitempty"`
		Ratio float32        `json:"ratio,omitempty"`
	}
	for _, s := range []string{
		`{"path":"a","lines":[1,2],"home":{"street":"b"}}`, `{"path":null}`, `{"Path":"a","path":"b"}`, `{"path":"a","path":"b"}`,
		`{"path":"a","more":{"a":[{}]},"ratio":1e40}`, `{"path":"\ud83d"}`, `[]`, `{"path":"a"}{}`, ``, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got arguments
		called := false
		tool := Func("f", "", func(_ context.Context, in arguments) (string, error) { got, called = in, true; return "", nil })
		_, err := tool.Call(t.Context(), json.RawMessage(text))
		if err != nil {
			if e, ok := errors.AsType[*ArgumentError](err); !ok || e.Want == "" || called {
				t.Fatalf("%#v, called %v", err, called)
			}
			return
		}
		var want arguments
		if err := json.Unmarshal(text, &want); err != nil || !called || want.Path != got.Path || !slices.Equal(want.Lines, got.Lines) {
			t.Fatalf("%q: %+v, by itself %+v, %v", text, got, want, err)
		}
	})
}
