package glm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// markers are words that occur in one place only, so that a leak names its source.
type markers map[string]string

func (m markers) in(place string) string {
	if m[place] == "" {
		m[place] = fmt.Sprintf("Zq%dXv%sWk", 7919*(len(m)+1), place)
	}
	return m[place]
}

// A sink collects everything that must hold no text, by where it came from.
type sink struct {
	t     *testing.T
	parts map[string]*strings.Builder
	errs  int
}

func (s *sink) add(from string, text string) {
	if s.parts[from] == nil {
		s.parts[from] = &strings.Builder{}
	}
	s.parts[from].WriteString(text + "\n")
}

// err takes an error and all that it wraps, in every way it may be printed.
func (s *sink) err(from string, err error) {
	s.t.Helper()
	if err == nil {
		s.t.Errorf("%s: no error was provoked", from)
		return
	}
	s.errs++
	var walk func(error)
	walk = func(err error) {
		s.add(from, fmt.Sprintf("%v %+v %#v %q %s %d", err, err, err, err, Code(err), HTTPStatus(err)))
		if text, bad := json.Marshal(err); bad == nil {
			s.add(from, string(text))
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			if u.Unwrap() != nil {
				walk(u.Unwrap())
			}
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				walk(e)
			}
		}
	}
	walk(err)
}

// marked is a conversation with a marker in every place that has text.
func marked(mk markers) Request {
	schema := fmt.Sprintf(`{"type":"object","title":%q,"properties":{"path":{"type":"string","description":%q,"enum":[%q]},%q:{"type":"integer"}},"required":["path"]}`,
		mk.in("SchemaTitle"), mk.in("SchemaDescription"), mk.in("SchemaEnum"), mk.in("SchemaProperty"))
	return Request{
		Tools: []Tool{
			readTool,
			{Name: mk.in("ToolName"), Description: mk.in("ToolDescription"), Parameters: json.RawMessage(schema)},
		},
		Messages: []Message{
			{Role: System, Content: mk.in("System")},
			{Role: User, Parts: []chat.Part{{Type: chat.PartText, Text: mk.in("Part")}}},
			{Role: Assistant, Reasoning: mk.in("Reasoning"), Content: mk.in("Assistant"), ToolCalls: []Call{
				{ID: mk.in("CallID"), Name: mk.in("CallName"), Arguments: json.RawMessage(fmt.Sprintf(`{%q:%q}`, mk.in("Key"), mk.in("Value")))},
			}},
			{Role: ToolRole, ToolCallID: mk.in("ResultID"), Content: mk.in("Result")},
			{Role: User, Content: mk.in("User")},
		},
		Stop: []string{mk.in("Stop")}, MaxTokens: 300,
	}
}

// Nothing that people or machines keep holds a word of prompt or output.
func TestMarkers(t *testing.T) {
	mk := markers{}
	s := &sink{t: t, parts: map[string]*strings.Builder{}}

	// Whatever is written anywhere: logs of this package and of the process,
	// standard output and error, files.
	var logged bytes.Buffer
	handler := slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug - 100, AddSource: true})
	previous := slog.Default()
	slog.SetDefault(slog.New(handler))
	log.SetOutput(&logged)
	t.Cleanup(func() { slog.SetDefault(previous); log.SetOutput(os.Stderr) })
	dir, temp := fixtureDir(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	printed := redirect(t)

	m, err := Open(t.Context(), dir, Config{Template: "GLM-5.2", Logger: slog.New(handler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	hands := animate(m)
	audit := &ledger{}
	pool, err := m.NewKVPool(PoolConfig{Tokens: fixtureContext, Audit: audit, Queue: 1, QueueWait: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	session, err := pool.NewSession(SessionConfig{Tenant: mk.in("Tenant"), Label: "label"})
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, r Request) (*Reply, error) {
		reply, err := Collect(session.Generate(ctx, r))
		s.add("stats", fmt.Sprintf("%+v %+v %+v", pool.Stats(), pool.Limits(), session.Usage()))
		return reply, err
	}

	// What a model says: thoughts, text, a call, calls that are bad.
	r := marked(mk)
	output := speech(m, mk.in("Thought")+"</think>"+mk.in("Answer")+"<tool_call>read<arg_key>path</arg_key><arg_value>"+mk.in("Argument")+"</arg_value></tool_call>"+
		"<tool_call>"+mk.in("UnknownTool")+"<arg_key>"+mk.in("UnknownKey")+"</arg_key><arg_value>x</arg_value></tool_call>"+
		"<tool_call>read<arg_key>lines</arg_key><arg_value>"+mk.in("BadValue")+"</arg_value></tool_call><|observation|>")
	r.MaxTokens = len(output)
	hands.say(output...)
	reply, err := run(t.Context(), r)
	if err != nil || len(reply.ToolCalls) != 1 || len(reply.BadToolCalls) != 2 || reply.Text != mk.in("Answer") || reply.Reasoning != mk.in("Thought") {
		t.Fatalf("%v, %+v", err, reply)
	}
	for _, bad := range reply.BadToolCalls {
		s.err("bad call", bad.Err)
	}
	next := r
	next.Messages = append(slices.Clone(r.Messages), reply.Message, Message{Role: ToolRole, Content: mk.in("Result2"), ToolCallID: reply.ToolCalls[0].ID})
	hands.say(speech(m, mk.in("CutAnswer"))...) // cut off by MaxTokens
	next.MaxTokens = 20
	if _, err := run(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	hands.say(speech(m, "</think>a"+mk.in("Stop")+"<|user|>")...)
	if reply, err := run(t.Context(), r); err != nil || reply.Text != "a" {
		t.Fatalf("%v %+v", err, reply)
	}

	// What is refused.
	for name, edit := range map[string]func(*Request){
		"both":             func(r *Request) { r.Tokens = speech(m, mk.in("Ids")) },
		"tools and tokens": func(r *Request) { r.Messages, r.Tokens = nil, speech(m, mk.in("Ids")) },
		"id range":         func(r *Request) { r.Messages, r.Tools, r.Tokens = nil, nil, append(speech(m, mk.in("Ids")), -1) },
		"max tokens":       func(r *Request) { r.MaxTokens = -1 },
		"too long":         func(r *Request) { r.MaxTokens = fixtureContext },
		"stop":             func(r *Request) { r.Stop = append(r.Stop, "") },
		"choice":           func(r *Request) { r.ToolChoice = ToolChoice{Mode: ToolNamed, Name: mk.in("Choice")} },
		"choice unused":    func(r *Request) { r.ToolChoice.Name = mk.in("ToolName") },
		"sampling":         func(r *Request) { r.Sampling = &Sampling{TopP: 7} },
		"bias":             func(r *Request) { r.Sampling = &Sampling{LogitBias: map[int32]float32{fixtureVocab: 1}} },
		"duplicate tool":   func(r *Request) { r.Tools = append(r.Tools, r.Tools[1]) },
		"schema text":      func(r *Request) { r.Tools[1].Parameters = json.RawMessage(`{"` + mk.in("BrokenSchema") + `":`) },
		"schema kind":      func(r *Request) { r.Tools[1].Parameters = json.RawMessage(`"` + mk.in("BrokenSchema") + `"`) },
		"schema properties": func(r *Request) {
			r.Tools[1].Parameters = json.RawMessage(`{"$ref":"#/$defs/` + mk.in("Def") + `","$defs":{"` + mk.in("Def") + `":{"properties":"` + mk.in("Property") + `"}}}`)
		},
		"schema reference": func(r *Request) {
			r.Tools[1].Parameters = json.RawMessage(`{"properties":{"` + mk.in("Property") + `":{"$ref":"#/` + mk.in("Reference") + `"}}}`)
		},
		"arguments": func(r *Request) { r.Messages[2].ToolCalls[0].Arguments = json.RawMessage(mk.in("BrokenArguments")) },
		"arguments kind": func(r *Request) {
			r.Messages[2].ToolCalls[0].Arguments = json.RawMessage(strconv.Quote(strconv.Quote(mk.in("BrokenArguments"))))
		},
		"arguments array": func(r *Request) {
			r.Messages[2].ToolCalls[0].Arguments = json.RawMessage(`["` + mk.in("BrokenArguments") + `"]`)
		},
		"calls of user": func(r *Request) { r.Messages[4].ToolCalls = r.Messages[2].ToolCalls },
		"both contents": func(r *Request) { r.Messages[1].Content = mk.in("Content") },
		"image":         func(r *Request) { r.Messages[1].Parts[0].Type = "image_url" },
		"part type in result": func(r *Request) {
			r.Messages[3] = Message{Role: ToolRole, Parts: []chat.Part{{Type: "audio", Text: mk.in("Part2")}}}
		},
		"reference": func(r *Request) {
			r.Messages[3] = Message{Role: ToolRole, Parts: []chat.Part{{Type: chat.PartToolReference, Name: mk.in("Referred")}}}
		},
		"role":   func(r *Request) { r.Messages[4].Role = "" },
		"effort": func(r *Request) { r.Effort = "much" },
	} {
		bad := marked(mk)
		edit(&bad)
		_, err := run(t.Context(), bad)
		s.err(name, err)
		if status := HTTPStatus(err); status != 400 {
			t.Errorf("%s: %d %v", name, status, err)
		}
		_, counted := m.Count(bad)
		if name != "too long" {
			s.err(name+", counted", counted)
		}
	}

	// What fails or is given up after admission.
	hands.say()
	for name, twist := range map[string]func(*backend.Result) error{
		"failed step": func(*backend.Result) error { return errors.New("bus") },
		"non-finite":  func(r *backend.Result) error { r.Health[0] |= backend.NonFinite; return nil },
		"tag":         func(r *backend.Result) error { r.Health[0] |= backend.TagMismatch; return nil },
		"echo":        func(r *backend.Result) error { r.Session[0]++; return nil },
		"echoed tag":  func(r *backend.Result) error { r.Tag[0]++; return nil },
	} {
		hands.spoil(twist)
		_, err := run(t.Context(), r)
		s.err(name, err)
		if HTTPStatus(err) != 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	hands.spoil(nil)

	release := held(t, hands)
	ctx, cancel := context.WithCancel(t.Context())
	r.MaxTokens = fixtureContext / 2
	r.Sampling = &Sampling{LogitBias: map[int32]float32{}}
	for _, id := range fixtureStops() {
		r.Sampling.LogitBias[id] = float32(math.Inf(-1))
	}
	running := background(session.Generate(ctx, r))
	waitFor(t, pool, "running", func(s PoolStats) bool { return s.Running == 1 })
	_, err = run(t.Context(), r)
	s.err("busy", err)
	_, err = Collect(pool.Generate(t.Context(), mk.in("Tenant2"), r))
	s.err("wait expired", err)
	waiting := background(pool.Generate(ctx, mk.in("Tenant2"), r))
	time.Sleep(time.Millisecond)
	cancel()
	s.err("cancelled", <-running)
	s.err("cancelled in the queue", <-waiting)
	release()
	atRest(pool)
	if err := pool.Forget(t.Context(), mk.in("Tenant")); err != nil {
		t.Error(err)
	}
	s.err("forget", pool.Forget(t.Context(), ""))
	late := background(session.Generate(t.Context(), r))
	waitFor(t, pool, "running", func(s PoolStats) bool { return s.Running == 1 })
	session.Close()
	s.err("session closed", <-late)
	_, err = run(t.Context(), r)
	s.err("session closed before", err)
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	_, err = pool.NewSession(SessionConfig{Tenant: mk.in("Tenant"), Label: "label"})
	s.err("pool closed", err)

	s.add("debug log", logged.String())
	s.add("audit", audit.lines.String())
	s.add("output of the process", printed())
	for _, d := range []string{dir, temp, "."} {
		filepath.WalkDir(d, func(path string, _ os.DirEntry, err error) error {
			s.add("file names", path)
			return err
		})
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("temporary files were left: %v", left)
	}
	if s.errs < 50 || len(mk) < 30 || audit.lines.Len() == 0 || logged.Len() == 0 {
		t.Errorf("%d errors, %d markers, %d bytes of audit, %d of log: too few to prove anything", s.errs, len(mk), audit.lines.Len(), logged.Len())
	}
	t.Logf("%d markers, %d errors, %d bytes of audit", len(mk), s.errs, audit.lines.Len())
	for from, text := range s.parts {
		for place, marker := range mk {
			if where := finds(text.String(), marker); where != "" {
				t.Errorf("%s holds the marker of %s: %s", from, place, where)
			}
		}
	}
}

// finds returns the surroundings of a marker in text: as it is, as hexadecimal
// or decimal bytes, and the better part of it, since texts are cut.
func finds(text, marker string) string {
	forms := []string{marker, marker[:9], marker[len(marker)-7:], fmt.Sprintf("%x", marker), fmt.Sprintf("%X", marker)}
	for _, separator := range []string{" ", ",", ", "} {
		var list []string
		for _, b := range []byte(marker[:6]) {
			list = append(list, strconv.Itoa(int(b)))
		}
		forms = append(forms, strings.Join(list, separator))
	}
	for _, f := range forms {
		if i := strings.Index(text, f); i >= 0 {
			return fmt.Sprintf("%q", text[max(0, i-60):min(len(text), i+60)])
		}
	}
	return ""
}

// redirect sends the standard output and error of the process to a file; the
// function that it returns gives what was written.
func redirect(t *testing.T) func() string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "printed")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	out, errout := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = f, f
	restore := func() { os.Stdout, os.Stderr = out, errout }
	t.Cleanup(func() { restore(); f.Close() })
	return func() string {
		restore()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
}

// The search finds what it is for.
func TestFinds(t *testing.T) {
	mk := markers{}
	a, b := mk.in("A"), mk.in("B")
	if a == b || a != mk.in("A") {
		t.Errorf("markers %s, %s", a, b)
	}
	for _, text := range []string{
		"x" + a + "y", fmt.Sprintf("%q", a), fmt.Sprintf("%v", []byte(a)), fmt.Sprintf("%x", a), a[:9] + "...", fmt.Sprintf("%+v", Message{Content: a}),
		fmt.Sprint([]int32{int32(a[0]), int32(a[1]), int32(a[2]), int32(a[3]), int32(a[4]), int32(a[5])}),
	} {
		if finds(text, a) == "" {
			t.Errorf("not found in %q", text)
		}
		if finds(text, b) != "" {
			t.Errorf("%q is taken for another", text)
		}
	}
}

// A consumer that panics takes its own generation with it and nothing else.
func TestConsumerPanics(t *testing.T) {
	m := openFixture(t, "")
	p := openPool(t, m, PoolConfig{Tokens: 320, Context: 320})
	s := openSession(t, p, "")
	r := Request{Tokens: ids(40), MaxTokens: 100, Sampling: quiet()}
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic was lost")
			}
		}()
		for range s.Generate(t.Context(), r) {
			panic("mine")
		}
	}()
	if u := s.Usage(); u.Prompt != 40 || u.Output == 0 {
		t.Errorf("usage after a panic: %+v", u)
	}
	if reply, err := Collect(s.Generate(t.Context(), r)); err != nil || reply.Usage.Output != 100 {
		t.Errorf("%v, %+v", err, reply.Usage)
	}
}
