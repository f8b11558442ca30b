package glm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
	"github.com/cofferdam-ml/cofferdam/kvcache"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// The table of errors, by hand: every sentinel under each wrapping.
func TestCodeAndStatus(t *testing.T) {
	for _, e := range []struct {
		err    error
		status int
		code   string
	}{
		{ErrContextExceedsModel, 400, "context_length_exceeded"},
		{ErrContextExceedsPool, 400, "context_length_exceeded"},
		{&ContextError{Limit: kvcache.LimitModel}, 400, "context_length_exceeded"},
		{&ContextError{Limit: kvcache.LimitPeer}, 400, "context_length_exceeded"},
		{ErrPoolExhausted, 429, "capacity_exceeded"},
		{&ExhaustedError{}, 429, "capacity_exceeded"},
		{ErrSessionBusy, 409, "session_busy"},
		{ErrSessionClosed, 410, "closed"},
		{ErrPoolClosed, 410, "closed"},
		{ErrModelClosed, 410, "closed"},
		{ErrInvalidRequest, 400, "invalid_request"},
		{&RequestError{}, 400, "invalid_request"},
		{ErrCanceled, 499, "cancelled"},
		{context.Canceled, 499, "cancelled"},
		{context.DeadlineExceeded, 499, "cancelled"},
		{ErrStalePage, 500, "kv_integrity"},
		{ErrUnwritten, 500, "kv_integrity"},
		{ErrHandoff, 500, "kv_integrity"},
		{ErrBinding, 500, "kv_integrity"},
		{&IntegrityError{Kind: ErrUnwritten}, 500, "kv_integrity"},
		{ErrPeerMismatch, 503, "peer_mismatch"},
		{ErrDevice, 500, "device"},
		{ErrNotBuilt, 500, "device"},
		{&DeviceError{Err: ErrNotBuilt}, 500, "device"},
		// Those that only opening a model raises.
		{ErrUnknownTemplate, 500, "internal"},
		{ErrUnsupportedModel, 500, "internal"},
		{ErrCorruptCheckpoint, 500, "internal"},
		{&FingerprintError{Want: "a", Have: "b"}, 500, "internal"},
		{errors.New("other"), 500, "internal"},
	} {
		for _, wrapped := range []error{e.err, fmt.Errorf("host: %w", e.err), errors.Join(errors.New("x"), e.err), fmt.Errorf("%w, %w", errors.New("y"), e.err)} {
			if HTTPStatus(wrapped) != e.status || Code(wrapped) != e.code {
				t.Errorf("%v: %d %q, want %d %q", wrapped, HTTPStatus(wrapped), Code(wrapped), e.status, e.code)
			}
		}
	}
	if HTTPStatus(nil) != 200 || Code(nil) != "" {
		t.Errorf("no error: %d %q", HTTPStatus(nil), Code(nil))
	}
}

// refused runs a request that must yield its error and nothing else, having
// touched no page. It returns the error as a T.
func refused[T error](t *testing.T, p *KVPool, ctx context.Context, r Request, kind error) T {
	t.Helper()
	before := atRest(p)
	var events, errs int
	var last error
	for ev, err := range p.Generate(ctx, "tenant", r) {
		if ev != nil {
			events++
		}
		if err != nil {
			errs++
			last = err
		}
	}
	if events != 0 || errs != 1 {
		t.Errorf("%d events, %d errors; want one error alone", events, errs)
	}
	if after := p.Stats(); after != before {
		t.Errorf("refused with %v, and the pool went from %+v to %+v", last, before, after)
	}
	if !errors.Is(last, kind) {
		t.Errorf("error %v, want one that is %v", last, kind)
	}
	detail, ok := errors.AsType[T](last)
	if !ok {
		t.Fatalf("error %T %v, want a %T", last, last, detail)
	}
	return detail
}

func contains(t *testing.T, err error, parts ...any) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(err.Error(), fmt.Sprint(p)) {
			t.Errorf("%q does not say %v", err, p)
		}
	}
}

func ids(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32('a' + i%26)
	}
	return out
}

// The limits of pool and model hold exactly, and what is above them is refused
// before any work.
func TestContextLimits(t *testing.T) {
	m := openFixture(t, "")
	for _, c := range []struct {
		name    string
		config  PoolConfig
		context int
		pool    int
		binding Limit
		kind    error
	}{
		{"model", PoolConfig{Tokens: fixtureContext + 640}, fixtureContext, fixtureContext + 640, kvcache.LimitModel, ErrContextExceedsModel},
		{"operator", PoolConfig{Tokens: 640, Context: 100}, 100, 640, kvcache.LimitModel, ErrContextExceedsModel},
		{"pool", PoolConfig{Tokens: 96, AllowSmallerPool: true}, 96, 96, kvcache.LimitPool, ErrContextExceedsPool},
		{"clamp", PoolConfig{Tokens: 96, AllowSmallerPool: true, Admission: Clamp}, 96, 96, kvcache.LimitPool, ErrContextExceedsPool},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openPool(t, m, c.config)
			want := Limits{Context: c.context, Prompt: c.context - 1, Output: c.context - 1, Pool: c.pool, Binding: c.binding}
			if got := p.Limits(); got != want {
				t.Fatalf("limits %+v, want %+v", got, want)
			}
			type size struct{ prompt, output int }
			refuse := []size{{c.context, 1}, {c.context + 1, 1}}
			serve := []size{{c.context - 1, 1}}
			if c.context < 1000 {
				serve = append(serve, size{c.context - 2, 1}, size{1, c.context - 1}, size{c.context - 7, 7})
			}
			if c.config.Admission == Strict {
				refuse = append(refuse, size{c.context - 1, 2}, size{1, c.context}, size{c.context - 7, 8}, size{1, math.MaxInt}, size{1, math.MaxInt - 1})
			}
			for _, s := range refuse {
				e := refused[*ContextError](t, p, t.Context(), Request{Tokens: ids(s.prompt), MaxTokens: s.output}, c.kind)
				if *e != (ContextError{Prompt: s.prompt, Output: s.output, Max: c.context, Pool: c.pool, Limit: c.binding}) {
					t.Errorf("%+v: %+v", s, *e)
				}
				contains(t, e, fmt.Sprintf("maximum context length is %d tokens", c.context), s.prompt, s.output)
				if s.output < math.MaxInt-1 {
					contains(t, e, s.prompt+s.output)
				}
				if HTTPStatus(e) != 400 || Code(e) != "context_length_exceeded" {
					t.Errorf("%d %s", HTTPStatus(e), Code(e))
				}
			}
			for _, s := range serve {
				r, err := Collect(p.Generate(t.Context(), "", Request{Tokens: ids(s.prompt), MaxTokens: s.output, Sampling: quiet()}))
				if err != nil || r.Reason != FinishLength || r.Usage.Output != s.output || r.Usage.Prompt != s.prompt {
					t.Errorf("%+v: %v, %s, %+v", s, err, r.Reason, r.Usage)
				}
			}
		})
	}
}

// quiet is greedy sampling that never ends a reply.
func quiet() *Sampling {
	s := &Sampling{LogitBias: map[int32]float32{}}
	for _, id := range fixtureStops() {
		s.LogitBias[id] = float32(math.Inf(-1))
	}
	return s
}

func fixtureStops() (stops []int32) {
	var g struct {
		EOS []int32 `json:"eos_token_id"`
	}
	if err := json.Unmarshal(fixtureFiles()["generation_config.json"].Data, &g); err != nil {
		panic(err)
	}
	return g.EOS
}

// A conversation that is too long is refused with the count that Count gives.
func TestContextOfMessages(t *testing.T) {
	m := openFixture(t, "")
	p := openPool(t, m, PoolConfig{Tokens: 128, AllowSmallerPool: true})
	r := Request{Messages: []Message{user(strings.Repeat("word ", 60))}, Tools: []Tool{readTool}, MaxTokens: 5}
	n, err := m.Count(r)
	if err != nil {
		t.Fatal(err)
	}
	e := refused[*ContextError](t, p, t.Context(), r, ErrContextExceedsPool)
	if e.Prompt != n || e.Output != 5 || e.Max != 128 {
		t.Errorf("%+v, and Count says %d", e, n)
	}
	// Without MaxTokens the pool's default counts.
	e = refused[*ContextError](t, p, t.Context(), Request{Tokens: ids(100)}, ErrContextExceedsPool)
	if e.Prompt != 100 || e.Output != 128/4 {
		t.Errorf("%+v, want the default of 32", e)
	}
}

// A pool that cannot hold the context it promises is refused when it is made.
func TestPoolSmallerThanContext(t *testing.T) {
	m := openFixture(t, "")
	before := offheap.InUse()
	for _, c := range []struct {
		config        PoolConfig
		context, pool int
	}{
		{PoolConfig{Tokens: fixtureContext - 32}, fixtureContext, fixtureContext - 32},
		{PoolConfig{Tokens: 65, Context: 97}, 97, 96},
		{PoolConfig{Tokens: 1, Context: 33}, 33, 32},
	} {
		p, err := m.NewKVPool(c.config)
		if p != nil {
			p.Close()
		}
		e, ok := errors.AsType[*ContextError](err)
		if !ok || !errors.Is(err, ErrContextExceedsPool) || e.Prompt != c.context || e.Max != c.pool || e.Pool != c.pool || e.Limit != kvcache.LimitPool {
			t.Errorf("%+v: %v %+v", c.config, err, e)
			continue
		}
		contains(t, err, fmt.Sprintf("maximum context length is %d tokens", c.pool), c.context)
	}
	for _, c := range []PoolConfig{{Tokens: 65, Context: 96}, {Tokens: fixtureContext}, {Tokens: 2, Context: 32}} {
		p, err := m.NewKVPool(c)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		p.Close()
	}
	if now := offheap.InUse(); now != before {
		t.Errorf("%d bytes left mapped", now-before)
	}
}

func TestPoolConfigErrors(t *testing.T) {
	m := openFixture(t, "")
	before := offheap.InUse()
	ok := PoolConfig{Tokens: 320, Context: 320}
	for _, c := range []struct {
		field string
		edit  func(*PoolConfig)
	}{
		{"Tokens", func(c *PoolConfig) { c.Tokens = 0 }},
		{"Tokens", func(c *PoolConfig) { c.Tokens = -1 }},
		{"Tokens", func(c *PoolConfig) { c.Tokens = math.MaxInt }},
		{"Context", func(c *PoolConfig) { c.Context = -1 }},
		{"Context", func(c *PoolConfig) { c.Context = 1 }},
		{"Context", func(c *PoolConfig) { c.Context = fixtureContext + 1 }},
		{"Admission", func(c *PoolConfig) { c.Admission = Clamp + 1 }},
		{"MaxTokens", func(c *PoolConfig) { c.MaxTokens = -1 }},
		{"QueueWait", func(c *PoolConfig) { c.QueueWait = -1 }},
		{"KV", func(c *PoolConfig) { c.KV = KVBF16 + 1 }},
	} {
		config := ok
		c.edit(&config)
		p, err := m.NewKVPool(config)
		if p != nil {
			p.Close()
		}
		if e, isRequest := errors.AsType[*RequestError](err); !isRequest || e.Field != "PoolConfig."+c.field || !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%+v: %v, want one about PoolConfig.%s", config, err, c.field)
		}
	}
	if p, err := m.NewKVPool(ok); err != nil {
		t.Error(err)
	} else {
		p.Close()
	}
	if now := offheap.InUse(); now != before {
		t.Errorf("%d bytes left mapped", now-before)
	}
}

// What a request may not say, with the field that the error names.
func TestInvalidRequests(t *testing.T) {
	m := openFixture(t, "")
	p := openPool(t, m, PoolConfig{Tokens: 1024, AllowSmallerPool: true})
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	said := []Message{user("x")}
	with := func(r Request) Request {
		r.Messages = said
		return r
	}
	sampling := func(s Sampling) Request { return with(Request{Sampling: &s}) }
	schema := func(s string) Request {
		return with(Request{Tools: []Tool{{Name: "f", Parameters: json.RawMessage(s)}}})
	}
	all := map[int32]float32{}
	for id := range int32(m.tokens.Size()) {
		all[id] = -inf
	}
	tools := []Tool{readTool}
	for _, c := range []struct {
		field string
		r     Request
	}{
		{"Messages", Request{}},
		{"Messages", Request{Messages: []Message{}, Tokens: []int32{}}},
		{"Messages", Request{Tools: tools, ToolChoice: ToolChoice{Mode: ToolRequired}}},
		{"Tokens", Request{Messages: said, Tokens: []int32{1}}},
		{"Tools", Request{Tokens: []int32{1}, Tools: tools}},
		{"Effort", Request{Tokens: []int32{1}, Effort: EffortNone}},
		{"Tokens[0]", Request{Tokens: []int32{-1}}},
		{"Tokens[2]", Request{Tokens: []int32{0, fixtureVocab - 1, fixtureVocab}}},
		{"Tokens[1]", Request{Tokens: []int32{0, math.MinInt32, math.MaxInt32}}},
		{"MaxTokens", with(Request{MaxTokens: -1})},
		{"MaxTokens", Request{Tokens: []int32{1}, MaxTokens: math.MinInt}},
		{"Stop[1]", with(Request{Stop: []string{"a", ""}})},
		{"Stop[0]", with(Request{Stop: []string{strings.Repeat("x", 1025)}})},
		{"Stop", with(Request{Stop: slices.Repeat([]string{"x"}, 17)})},
		{"effort", with(Request{Effort: "enormous"})},
		{"ToolChoice", with(Request{ToolChoice: ToolChoice{Mode: ToolRequired}})},
		{"ToolChoice.Name", with(Request{ToolChoice: ToolChoice{Mode: ToolNamed}})},
		{"ToolChoice.Name", with(Request{Tools: tools, ToolChoice: ToolChoice{Mode: ToolNamed}})},
		{"ToolChoice.Name", with(Request{Tools: tools, ToolChoice: ToolChoice{Mode: ToolNamed, Name: "write"}})},
		{"ToolChoice.Name", with(Request{Tools: tools, ToolChoice: ToolChoice{Name: "read"}})},
		{"ToolChoice.Mode", with(Request{Tools: tools, ToolChoice: ToolChoice{Mode: ToolNamed + 1}})},
		{"Sampling.Temperature", sampling(Sampling{Temperature: nan})},
		{"Sampling.Temperature", sampling(Sampling{Temperature: -0.1})},
		{"Sampling.Temperature", sampling(Sampling{Temperature: inf})},
		{"Sampling.TopP", sampling(Sampling{TopP: nan})},
		{"Sampling.TopP", sampling(Sampling{TopP: 1.5})},
		{"Sampling.TopP", sampling(Sampling{TopP: -1})},
		{"Sampling.TopK", sampling(Sampling{TopK: -1})},
		{"Sampling.MinP", sampling(Sampling{MinP: nan})},
		{"Sampling.MinP", sampling(Sampling{MinP: 2})},
		{"Sampling.Repetition", sampling(Sampling{Repetition: nan})},
		{"Sampling.Repetition", sampling(Sampling{Repetition: -1})},
		{"Sampling.Repetition", sampling(Sampling{Repetition: 1e-40})},
		{"Sampling.Presence", sampling(Sampling{Presence: nan})},
		{"Sampling.Presence", sampling(Sampling{Presence: inf})},
		{"Sampling.Frequency", sampling(Sampling{Frequency: -inf})},
		{"Sampling.LogitBias", sampling(Sampling{LogitBias: map[int32]float32{-1: 0}})},
		{"Sampling.LogitBias", sampling(Sampling{LogitBias: map[int32]float32{fixtureVocab: 0}})},
		{"Sampling.LogitBias", sampling(Sampling{LogitBias: map[int32]float32{1: nan}})},
		{"Sampling.LogitBias", sampling(Sampling{LogitBias: map[int32]float32{1: inf}})},
		{"Sampling.LogitBias", sampling(Sampling{LogitBias: all})},
		{"Sampling.TopLogProbs", sampling(Sampling{TopLogProbs: -1})},
		{"Sampling.TopLogProbs", sampling(Sampling{TopLogProbs: 21})},
		{"tools[0].function.parameters/properties", schema(`{"properties":7}`)},
		{"tools[0].function.parameters/properties/*/$ref", schema(`{"properties":{"a":{"$ref":"#/nowhere"}}}`)},
		{"tools[0].function.parameters/$defs/*/anyOf/1/properties/*/$ref", schema(`{"$ref":"#/$defs/d","$defs":{"d":{"anyOf":[{},{"properties":{"a":{"$ref":"#/no"}}}]}}}`)},
		{"tools[0].function.parameters", schema(`[]`)},
		{"tools[0].function.parameters", schema(`{"a":`)},
		{"tools[0].function.parameters", schema(`null`)},
		{"tools[0].function.name", with(Request{Tools: []Tool{{}}})},
		{"tools[1].function.name", with(Request{Tools: []Tool{readTool, readTool}})},
		{"messages[0].role", Request{Messages: []Message{{}}}},
		{"messages[1].role", Request{Messages: []Message{user("a"), {Role: "narrator"}}}},
		{"messages[0]", Request{Messages: []Message{{Role: User, Content: "a", Parts: []chat.Part{{Type: chat.PartText, Text: "b"}}}}}},
		{"messages[0].content[0].type", Request{Messages: []Message{{Role: User, Parts: []chat.Part{{Type: "image_url"}}}}}},
		{"messages[0].tool_calls", Request{Messages: []Message{{Role: User, ToolCalls: []Call{{Name: "f"}}}}}},
		{"messages[0].tool_calls[0].function.name", Request{Messages: []Message{{Role: Assistant, ToolCalls: []Call{{}}}}}},
		{"messages[0].tool_calls[0].function.arguments", Request{Messages: []Message{{Role: Assistant, ToolCalls: []Call{{Name: "f", Arguments: json.RawMessage(`[1]`)}}}}}},
		{"messages[0].tool_calls[0].function.arguments", Request{Messages: []Message{{Role: Assistant, ToolCalls: []Call{{Name: "f", Arguments: json.RawMessage(`{`)}}}}}},
	} {
		e := refused[*RequestError](t, p, t.Context(), c.r, ErrInvalidRequest)
		if e.Field != c.field || e.Reason == "" {
			t.Errorf("%q: %q %v", c.field, e.Field, e)
		}
		contains(t, e, e.Field, e.Reason)
		if HTTPStatus(e) != 400 || Code(e) != "invalid_request" {
			t.Errorf("%v: %d %s", e, HTTPStatus(e), Code(e))
		}
		if _, err := m.Count(c.r); !errors.Is(err, ErrInvalidRequest) || err.Error() != e.Error() {
			t.Errorf("Generate says %v, Count says %v", e, err)
		}
	}
}

// A checkpoint without text files serves ids, and says so when asked for more.
func TestWithoutTokenizer(t *testing.T) {
	files := fixtureFiles()
	delete(files, "tokenizer.json")
	m := openFiles(t, files, Config{})
	p := openPool(t, m, PoolConfig{Tokens: 128, AllowSmallerPool: true})
	if e := refused[*RequestError](t, p, t.Context(), Request{Messages: []Message{user("x")}}, ErrInvalidRequest); e.Field != "Messages" {
		t.Error(e)
	}
	if e := refused[*RequestError](t, p, t.Context(), Request{Tokens: ids(3), Stop: []string{"x"}}, ErrInvalidRequest); e.Field != "Stop" {
		t.Error(e)
	}
	r, err := Collect(p.Generate(t.Context(), "", Request{Tokens: ids(3), MaxTokens: 4, Sampling: quiet()}))
	if err != nil || len(r.Tokens) != 4 || m.Tokenizer() != nil || m.Template() != "" {
		t.Errorf("%v, %+v", err, r)
	}
	if _, err := OpenFS(t.Context(), files, Config{Template: "GLM-5"}); !errors.Is(err, ErrUnsupportedModel) {
		t.Errorf("a template without a tokenizer: %v", err)
	}
}

// held makes the puppet hold every step back until the returned function is
// called.
func held(t *testing.T, p *puppet) (release func()) {
	t.Helper()
	p.turn.Lock()
	done := false
	release = func() {
		if !done {
			done = true
			p.turn.Unlock()
		}
	}
	t.Cleanup(release)
	return release
}

// waitFor waits until the pool looks as wanted.
func waitFor(t *testing.T, p *KVPool, what string, ok func(PoolStats) bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(p.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never %s: %+v", what, p.Stats())
		}
	}
}

// background ranges over a stream elsewhere and gives how it ended.
func background(stream iter.Seq2[Event, error]) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := Collect(stream)
		done <- err
	}()
	return done
}

// occupy admits a request that holds the whole pool until release is called.
func occupy(t *testing.T, m *Model, c PoolConfig) (p *KVPool, release func()) {
	t.Helper()
	strings := animate(m)
	p = openPool(t, m, c)
	resume := held(t, strings)
	done := background(p.Generate(t.Context(), "", Request{Tokens: ids(8), MaxTokens: p.Limits().Context - 8, Sampling: quiet()}))
	waitFor(t, p, "occupied", func(s PoolStats) bool { return s.Running == 1 })
	return p, func() {
		resume()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// With no room and no place in the queue a request is refused at once.
func TestQueueFull(t *testing.T) {
	p, release := occupy(t, openFixture(t, ""), PoolConfig{Tokens: 96, Context: 96, Queue: -1})
	defer release()
	_, err := Collect(p.Generate(t.Context(), "", Request{Tokens: ids(9), MaxTokens: 11}))
	checkExhausted(t, err, 20, defaultQueueWait)

	p, release2 := occupy(t, openFixture(t, ""), PoolConfig{Tokens: 96, Context: 96, Queue: 1, QueueWait: time.Hour})
	defer release2()
	ctx, cancel := context.WithCancel(t.Context())
	first := background(p.Generate(ctx, "", Request{Tokens: ids(4), MaxTokens: 1}))
	waitFor(t, p, "waiting", func(s PoolStats) bool { return s.Waiting == 1 })
	_, err = Collect(p.Generate(t.Context(), "", Request{Tokens: ids(90), MaxTokens: 6}))
	checkExhausted(t, err, 96, time.Hour)
	cancel()
	if err := <-first; !errors.Is(err, ErrCanceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while waiting: %v", err)
	}
}

func checkExhausted(t *testing.T, err error, need int, after time.Duration) {
	t.Helper()
	e, ok := errors.AsType[*ExhaustedError](err)
	if !ok || !errors.Is(err, ErrPoolExhausted) || *e != (ExhaustedError{Need: need, RetryAfter: after}) {
		t.Fatalf("%v %+v, want %d tokens after %v", err, e, need, after)
	}
	contains(t, err, need, after)
	if HTTPStatus(err) != 429 || Code(err) != "capacity_exceeded" {
		t.Errorf("%d %s", HTTPStatus(err), Code(err))
	}
}

// A request waits as long as the pool says, and not for ever.
func TestQueueWaitExpires(t *testing.T) {
	p, release := occupy(t, openFixture(t, ""), PoolConfig{Tokens: 96, Context: 96, QueueWait: 30 * time.Millisecond})
	start := time.Now()
	_, err := Collect(p.Generate(t.Context(), "", Request{Tokens: ids(9), MaxTokens: 2}))
	if waited := time.Since(start); waited < 30*time.Millisecond {
		t.Errorf("gave up after %v", waited)
	}
	checkExhausted(t, err, 11, time.Second) // never told to retry within a second
	// Clamp asks for the prompt and a page only.
	release()
	p, release = occupy(t, openFixture(t, ""), PoolConfig{Tokens: 96, Context: 96, QueueWait: time.Millisecond, Admission: Clamp})
	_, err = Collect(p.Generate(t.Context(), "", Request{Tokens: ids(60), MaxTokens: 36}))
	checkExhausted(t, err, 92, time.Second)
	release()
}

// Room that appears in time ends the wait.
func TestQueueAdmits(t *testing.T) {
	p, release := occupy(t, openFixture(t, ""), PoolConfig{Tokens: 96, Context: 96, QueueWait: time.Hour})
	next := background(p.Generate(t.Context(), "", Request{Tokens: ids(9), MaxTokens: 2}))
	waitFor(t, p, "waiting", func(s PoolStats) bool { return s.Waiting == 1 })
	release()
	if err := <-next; err != nil {
		t.Error(err)
	}
}

// Contexts that end before, while waiting and while running.
func TestCancelled(t *testing.T) {
	reason := errors.New("the client hung up")
	for _, c := range []struct {
		name string
		ctx  func(context.Context) (ctx context.Context, end func())
		is   []error
	}{
		{"cancel", func(p context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(p)
			return ctx, cancel
		}, []error{ErrCanceled, context.Canceled}},
		{"deadline", func(p context.Context) (context.Context, func()) {
			ctx, cancel := context.WithDeadline(p, time.Now().Add(60*time.Millisecond))
			return ctx, func() { <-ctx.Done(); cancel() }
		}, []error{ErrCanceled, context.DeadlineExceeded}},
		{"cause", func(p context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(p)
			return ctx, func() { cancel(reason) }
		}, []error{ErrCanceled, context.Canceled, reason}},
	} {
		check := func(t *testing.T, err error) {
			t.Helper()
			for _, is := range c.is {
				if !errors.Is(err, is) {
					t.Errorf("%v is not %v", err, is)
				}
			}
			if HTTPStatus(err) != 499 || Code(err) != "cancelled" {
				t.Errorf("%v: %d %s", err, HTTPStatus(err), Code(err))
			}
		}
		r := Request{Tokens: ids(9), MaxTokens: 20, Sampling: quiet()}
		t.Run(c.name+"/before", func(t *testing.T) {
			p := openPool(t, openFixture(t, ""), PoolConfig{Tokens: 96, Context: 96})
			ctx, end := c.ctx(t.Context())
			end()
			stats := p.Stats()
			events := 0
			for ev, err := range p.Generate(ctx, "", r) {
				events++
				if ev != nil {
					t.Errorf("event %v", ev)
				}
				check(t, err)
			}
			if events != 1 || p.Stats() != stats {
				t.Errorf("%d elements, %+v", events, p.Stats())
			}
		})
		t.Run(c.name+"/waiting", func(t *testing.T) {
			p, release := occupy(t, openFixture(t, ""), PoolConfig{Tokens: 96, Context: 96})
			defer release()
			ctx, end := c.ctx(t.Context())
			done := background(p.Generate(ctx, "", r))
			waitFor(t, p, "waiting", func(s PoolStats) bool { return s.Waiting == 1 })
			end()
			check(t, <-done)
			if s := p.Stats(); s.Waiting != 0 || s.Running != 1 {
				t.Errorf("%+v", s)
			}
		})
		t.Run(c.name+"/running", func(t *testing.T) {
			m := openFixture(t, "")
			strings := animate(m)
			p := openPool(t, m, PoolConfig{Tokens: 96, Context: 96})
			release := held(t, strings)
			defer release()
			ctx, end := c.ctx(t.Context())
			s := openSession(t, p, "")
			time.AfterFunc(20*time.Millisecond, end)
			var finish Finish
			var elements []string
			for ev, err := range s.Generate(ctx, r) {
				elements = append(elements, fmt.Sprintf("%T", ev))
				if f, ok := ev.(Finish); ok {
					finish = f
				}
				if err != nil {
					check(t, err)
				}
			}
			if want := []string{"glm.Finish", "<nil>"}; !slices.Equal(elements, want) || finish.Reason != FinishCancelled || finish.Usage.Prompt != 9 {
				t.Errorf("%v, %+v", elements, finish)
			}
			if s.Usage() != finish.Usage {
				t.Errorf("usage %+v, want %+v", s.Usage(), finish.Usage)
			}
		})
	}
}

func TestBusyAndClosed(t *testing.T) {
	check := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		status, code := 410, "closed"
		if want == ErrSessionBusy {
			status, code = 409, "session_busy"
		}
		if HTTPStatus(err) != status || Code(err) != code {
			t.Errorf("%v: %d %s", err, HTTPStatus(err), Code(err))
		}
	}
	m := openFixture(t, "")
	r := Request{Tokens: ids(9), MaxTokens: 20, Sampling: quiet()}
	p := openPool(t, m, PoolConfig{Tokens: 96, Context: 96})
	s := openSession(t, p, "")
	for range s.Generate(t.Context(), r) {
		_, err := Collect(s.Generate(t.Context(), r))
		check(err, ErrSessionBusy)
		break
	}
	if _, err := Collect(s.Generate(t.Context(), r)); err != nil {
		t.Errorf("after break: %v", err)
	}
	s.Close()
	_, err := Collect(s.Generate(t.Context(), r))
	check(err, ErrSessionClosed)

	// Closing what runs: Finish, then the error, once.
	for _, c := range []struct {
		name  string
		close func(*Model, *KVPool, *Session) error
		want  error
	}{
		{"session", func(_ *Model, _ *KVPool, s *Session) error { return s.Close() }, ErrSessionClosed},
		{"pool", func(_ *Model, p *KVPool, _ *Session) error { return p.Close() }, ErrPoolClosed},
		{"model", func(m *Model, _ *KVPool, _ *Session) error { return m.Close() }, ErrModelClosed},
	} {
		m, err := OpenFS(t.Context(), fixtureFiles(), Config{Template: "GLM-5.2"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.NewKVPool(PoolConfig{Tokens: 96, Context: 96})
		if err != nil {
			t.Fatal(err)
		}
		s := openSession(t, p, "")
		var elements []string
		for ev, err := range s.Generate(t.Context(), r) {
			if elements == nil {
				if err := c.close(m, p, s); err != nil {
					t.Error(err)
				}
				if err := c.close(m, p, s); err != nil {
					t.Errorf("closed twice: %v", err)
				}
			}
			switch f, ok := ev.(Finish); {
			case ok:
				elements = append(elements, string(f.Reason))
			case err != nil:
				elements = append(elements, "error")
				check(err, c.want)
			case len(elements) == 0:
				elements = append(elements, "token")
			}
		}
		// Everything may have been sampled before the close.
		if !slices.Equal(elements, []string{"token", "failed", "error"}) && !slices.Equal(elements, []string{"token", "length"}) {
			t.Errorf("%s: %v", c.name, elements)
		}
		_, err = Collect(s.Generate(t.Context(), r))
		check(err, c.want)
		if c.name != "session" {
			_, err = p.NewSession(SessionConfig{})
			check(err, c.want)
			_, err = Collect(p.Generate(t.Context(), "", r))
			check(err, c.want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		_, err = m.NewKVPool(PoolConfig{Tokens: 96, Context: 96})
		check(err, ErrModelClosed)
	}
}

// What goes wrong in a step reaches the caller as what it is, once, after a
// Finish, and the session goes on.
func TestStepErrors(t *testing.T) {
	m := openFixture(t, "")
	p := animate(m)
	pool, err := m.NewKVPool(PoolConfig{Tokens: 320, Context: 320})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	s := openSession(t, pool, "")
	broken := errors.New("broken bus")
	for _, c := range []struct {
		name  string
		twist func(*backend.Result) error
		code  string
		check func(t *testing.T, err error)
	}{
		{"wait", func(*backend.Result) error { return broken }, "device", func(t *testing.T, err error) {
			e, ok := errors.AsType[*DeviceError](err)
			if !ok || e.Op != "step" || e.Name != "failed" || !errors.Is(err, ErrDevice) || !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
		}},
		{"health", func(r *backend.Result) error { r.Health[2] |= backend.NonFinite; return nil }, "device", func(t *testing.T, err error) {
			e, ok := errors.AsType[*DeviceError](err)
			if !ok || e.Op != "step" || e.Code != int(backend.NonFinite) || e.Name != "non-finite" || !errors.Is(err, ErrDevice) {
				t.Errorf("%v", err)
			}
			contains(t, err, "non-finite", "code 1")
		}},
		{"tag", func(r *backend.Result) error { r.Health[0] |= backend.TagMismatch; return nil }, "kv_integrity", func(t *testing.T, err error) {
			e, ok := errors.AsType[*IntegrityError](err)
			if !ok || e.Kind != ErrBinding || e.Position != 0 || e.Have != "tag mismatch" || !errors.Is(err, ErrBinding) {
				t.Errorf("%v %+v", err, e)
			}
		}},
		{"session echo", func(r *backend.Result) error { r.Session[0]++; return nil }, "kv_integrity", isBinding},
		{"tag echo", func(r *backend.Result) error { r.Tag[0]++; return nil }, "kv_integrity", isBinding},
		{"epoch echo", func(r *backend.Result) error { r.Epoch++; return nil }, "kv_integrity", isBinding},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.spoil(c.twist)
			var elements []string
			var last error
			for ev, err := range s.Generate(t.Context(), Request{Tokens: ids(9), MaxTokens: 3}) {
				if f, ok := ev.(Finish); ok {
					elements = append(elements, string(f.Reason))
				}
				if err != nil {
					elements = append(elements, "error")
					last = err
				}
			}
			if !slices.Equal(elements, []string{"failed", "error"}) {
				t.Fatalf("%v", elements)
			}
			c.check(t, last)
			if HTTPStatus(last) != 500 || Code(last) != c.code {
				t.Errorf("%v: %d %s", last, HTTPStatus(last), Code(last))
			}
			p.spoil(nil)
			if _, err := Collect(s.Generate(t.Context(), Request{Tokens: ids(9), MaxTokens: 3})); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if err := pool.cache.Check(); err != nil {
				t.Error(err)
			}
		})
	}
	if n := pool.Stats().Integrity; n != 3 {
		t.Errorf("%d integrity errors counted, want those of the 3 echoes", n)
	}
}

func isBinding(t *testing.T, err error) {
	e, ok := errors.AsType[*IntegrityError](err)
	if !ok || e.Kind != ErrBinding || !errors.Is(err, ErrBinding) || e.Want == "" || e.Have == "" {
		t.Errorf("%v %+v", err, e)
	}
}

// A model whose weights are no numbers fails the rows that meet them.
func TestNonFiniteWeights(t *testing.T) {
	files := fixtureFiles()
	data := slices.Clone(files["model.safetensors"].Data)
	const bad = 'q' // the embedding of one id
	begin, _ := tensorAt(t, data, "model.embed_tokens.weight")
	data[begin+bad*48*2+1] = 0xff
	data[begin+bad*48*2] = 0xff
	files["model.safetensors"] = &fstest.MapFile{Data: data, Mode: 0o600}
	m := openFiles(t, files, Config{Template: "GLM-5.2"})
	p := openPool(t, m, PoolConfig{Tokens: 320, Context: 320})
	s := openSession(t, p, "")
	prompt := []int32{'a', 'b', bad, 'c'}
	r, err := Collect(s.Generate(t.Context(), Request{Tokens: prompt, MaxTokens: 3}))
	e, ok := errors.AsType[*DeviceError](err)
	if !ok || e.Code != int(backend.NonFinite) || r.Reason != FinishFailed || len(r.Tokens) != 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if r, err := Collect(s.Generate(t.Context(), Request{Tokens: prompt[:2], MaxTokens: 3, Sampling: quiet()})); err != nil || len(r.Tokens) != 3 {
		t.Errorf("%v, %+v", err, r)
	}
}

// tensorAt finds the bytes of a tensor in a safetensors file.
func tensorAt(t *testing.T, file []byte, name string) (begin, end int) {
	t.Helper()
	n := int(binary.LittleEndian.Uint64(file))
	var header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(file[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	at, ok := header[name]
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	return 8 + n + at.Offsets[0], 8 + n + at.Offsets[1]
}

// What OpenFS refuses: which error, with which detail, and nothing stays mapped.
func TestOpenErrors(t *testing.T) {
	before := offheap.InUse()
	set := func(name string, data []byte) func(fstest.MapFS) {
		return func(f fstest.MapFS) { f[name] = &fstest.MapFile{Data: data, Mode: 0o600} }
	}
	remove := func(name string) func(fstest.MapFS) { return func(f fstest.MapFS) { delete(f, name) } }
	replace := func(name, old, with string) func(fstest.MapFS) {
		return func(f fstest.MapFS) {
			if !bytes.Contains(f[name].Data, []byte(old)) {
				t.Fatalf("no %s in %s", old, name)
			}
			set(name, bytes.Replace(f[name].Data, []byte(old), []byte(with), 1))(f)
		}
	}
	corrupt := func(file string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*CheckpointError](err)
			return ok && errors.Is(err, ErrCorruptCheckpoint) && e.File == file && e.Want != "" && e.Have != ""
		}
	}
	unsupported := func(field, value string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*UnsupportedError](err)
			return ok && errors.Is(err, ErrUnsupportedModel) && e.Field == field && e.Value == value && e.Supported != ""
		}
	}
	nothing := func(fstest.MapFS) {}
	weights := fixtureFiles()["model.safetensors"].Data
	for _, c := range []struct {
		name   string
		edit   func(fstest.MapFS)
		config Config
		ok     func(error) bool
	}{
		{"no config", remove("config.json"), Config{}, func(err error) bool { return corrupt("config.json")(err) && errors.Is(err, fs.ErrNotExist) }},
		{"broken config", set("config.json", []byte("{")), Config{}, corrupt("config.json")},
		{"other family", replace("config.json", `"glm_moe_dsa"`, `"llama"`), Config{}, unsupported("model_type", `"llama"`)},
		{"no weights", remove("model.safetensors"), Config{}, func(err error) bool {
			return corrupt("model.safetensors")(err) && errors.Is(err, fs.ErrNotExist)
		}},
		{"cut weights", set("model.safetensors", weights[:len(weights)-1]), Config{}, corrupt("model.safetensors")},
		{"no header", set("model.safetensors", weights[:7]), Config{}, corrupt("model.safetensors")},
		{"missing tensor", replace("model.safetensors", "model.norm.weight", "model.nora.weight"), Config{}, corrupt("model.safetensors")},
		{"broken generation", set("generation_config.json", []byte("[]")), Config{}, corrupt("generation_config.json")},
		{"generation range", set("generation_config.json", []byte(`{"top_p": 3}`)), Config{}, unsupported("generation_config.json: top_p", "3")},
		{"generation penalty", set("generation_config.json", []byte(`{"repetition_penalty": 1e-9}`)), Config{},
			unsupported("generation_config.json: Sampling.Repetition", "is 1e-09, want 0 or 0.01 to 100")},
		{"broken tokenizer", set("tokenizer.json", []byte(`{"model":`)), Config{}, corrupt("tokenizer.json")},
		{"tokenizer kind", replace("tokenizer.json", `"BPE"`, `"WordPiece"`), Config{}, unsupported("tokenizer.json: model.type", `"WordPiece"`)},
		{"large tokenizer", replace("tokenizer.json", `|video|\u003e","id":`, `|video|\u003e","id":9`), Config{}, corrupt("tokenizer.json")},
		{"not GLM's tokens", replace("tokenizer.json", `"\u003ctool_response\u003e"`, `"\u003ctool_requests\u003e"`), Config{Template: "GLM-5"}, corrupt("tokenizer.json")},
		{"unreadable template", func(f fstest.MapFS) { f["chat_template.jinja"] = &fstest.MapFile{Mode: fs.ModeDir} }, Config{}, corrupt("chat_template.jinja")},
		{"device", nothing, Config{Device: CUDA + 1}, unsupported("Config.Device", "2")},
		{"weights", nothing, Config{Weights: Int4 + 1}, unsupported("Config.Weights", "3")},
		{"weights", nothing, Config{Weights: 99}, unsupported("Config.Weights", "99")},
		{"threads", nothing, Config{Threads: -1}, unsupported("Config.Threads", "-1")},
		{"many threads", nothing, Config{Threads: 4097}, unsupported("Config.Threads", "4097")},
		{"eps", nothing, Config{LatentEps: math.NaN()}, unsupported("Config.LatentEps", "NaN")},
		{"negative eps", nothing, Config{LatentEps: -1}, unsupported("Config.LatentEps", "-1")},
		{"CUDA", nothing, Config{Device: CUDA}, func(err error) bool {
			e, ok := errors.AsType[*DeviceError](err)
			return ok && e.Op == "open" && e.Name == "CUDA" && errors.Is(err, ErrNotBuilt) && errors.Is(err, ErrDevice) &&
				HTTPStatus(err) == 500 && Code(err) == "device"
		}},
		{"template name", nothing, Config{Template: "GLM-9"}, func(err error) bool {
			e, ok := errors.AsType[*TemplateError](err)
			return ok && errors.Is(err, ErrUnknownTemplate) && e.Name == "GLM-9" && e.Fingerprint == "" && slices.Equal(e.Known, chat.Names())
		}},
		{"template file", set("chat_template.jinja", []byte("{{ messages }}")), Config{}, func(err error) bool {
			e, ok := errors.AsType[*TemplateError](err)
			sum := sha256.Sum256([]byte("{{ messages }}"))
			return ok && errors.Is(err, ErrUnknownTemplate) && e.Fingerprint == hex.EncodeToString(sum[:]) && slices.Equal(e.Known, chat.Names()) &&
				strings.Contains(err.Error(), e.Fingerprint) && strings.Contains(err.Error(), strings.Join(chat.Names(), ", "))
		}},
	} {
		files := fixtureFiles()
		c.edit(files)
		m, err := OpenFS(t.Context(), files, c.config)
		if m != nil {
			m.Close()
		}
		if m != nil || err == nil || !c.ok(err) {
			t.Errorf("%s: %T %v", c.name, err, err)
		}
		if now := offheap.InUse(); now != before {
			t.Errorf("%s: %d bytes left mapped", c.name, now-before)
			before = now
		}
	}
}

// A context that ends while weights are loaded ends the loading, wherever it is.
func TestOpenCancelled(t *testing.T) {
	before, goroutines := offheap.InUse(), runtime.NumGoroutine()
	calls := 0
	for at := 0; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		if at == 0 {
			cancel()
		}
		m, err := OpenFS(ctx, fixtureFiles(), Config{Template: "GLM-5", OnProgress: func(p Progress) {
			if seen++; seen == at {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			calls = seen
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if at < seen {
				t.Errorf("cancelled at call %d of %d, and opened", at, seen)
			}
			break
		}
		if !errors.Is(err, ErrCanceled) || !errors.Is(err, context.Canceled) || m != nil || Code(err) != "cancelled" {
			t.Errorf("call %d: %v", at, err)
		}
		if now := offheap.InUse(); now != before {
			t.Fatalf("call %d: %d bytes left mapped", at, now-before)
		}
	}
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines were left", runtime.NumGoroutine()-goroutines)
		}
	}
	if calls < 10 {
		t.Errorf("only %d reports of progress", calls)
	}
}

// Progress rises and ends at the total.
func TestProgress(t *testing.T) {
	var last Progress
	reports, ended := 0, 0
	openFiles(t, fixtureFiles(), Config{OnProgress: func(p Progress) {
		reports++
		if p.Total <= 0 || p.Done < last.Done || p.Done > p.Total || last.Total != 0 && p.Total != last.Total {
			t.Errorf("%+v after %+v", p, last)
		}
		if p.Done == p.Total {
			ended++
		}
		last = p
	}})
	if last.Done != last.Total || reports < 10 || ended > 2 {
		t.Errorf("%d reports, %d of them the end, the last %+v", reports, ended, last)
	}
}

// No argument that is nil or zero panics.
func TestZeroArguments(t *testing.T) {
	isInvalid := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var none context.Context
	_, err := OpenFS(none, fixtureFiles(), Config{})
	isInvalid("OpenFS without a context", err)
	_, err = OpenFS(t.Context(), nil, Config{})
	isInvalid("OpenFS without files", err)
	_, err = Open(t.Context(), "", Config{})
	if !errors.Is(err, ErrCorruptCheckpoint) {
		t.Errorf("Open of nothing: %v", err)
	}
	m := openFixture(t, "")
	_, err = m.NewKVPool(PoolConfig{})
	isInvalid("NewKVPool", err)
	_, err = m.Count(Request{})
	isInvalid("Count", err)
	p := openPool(t, m, PoolConfig{Tokens: 960, Context: 960})
	isInvalid("Forget without a context", p.Forget(none, "tenant"))
	isInvalid("Forget of nobody", p.Forget(t.Context(), ""))
	s := openSession(t, p, "")
	good := Request{Tokens: ids(3), MaxTokens: 1}
	_, err = Collect(s.Generate(none, good))
	isInvalid("Session.Generate without a context", err)
	_, err = Collect(p.Generate(none, "", good))
	isInvalid("KVPool.Generate without a context", err)
	_, err = Collect(s.Generate(t.Context(), Request{}))
	isInvalid("Generate of nothing", err)
	_, err = Collect(nil)
	isInvalid("Collect", err)
	for _, r := range []Request{
		{Tokens: ids(3), MaxTokens: 1, Sampling: &Sampling{}},
		{Tokens: ids(3), MaxTokens: 1, Sampling: &Sampling{LogitBias: map[int32]float32{}}, Stop: []string{}},
		{Messages: []Message{{Role: User}}, MaxTokens: 1},
		{Messages: []Message{{Role: Assistant}}, MaxTokens: 1},
		{Messages: []Message{{Role: ToolRole}}, MaxTokens: 1},
		{Messages: []Message{{Role: System, Parts: []chat.Part{}}}, Tools: []Tool{}, MaxTokens: 1},
		{Messages: []Message{{Role: Assistant, ToolCalls: []Call{{Name: "x"}}}, {Role: ToolRole, Parts: []chat.Part{{Type: chat.PartText}}}}, MaxTokens: 1},
		{Messages: []Message{user("")}, Tools: []Tool{{Name: "x"}}, MaxTokens: 1},
	} {
		if _, err := Collect(s.Generate(t.Context(), r)); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if u := s.Usage(); u.Prompt == 0 {
		t.Errorf("usage %+v", u)
	}
	for range 2 {
		if err := errors.Join(s.Close(), p.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Forgetting waits for who still reads; a context ends the wait.
func TestForgetCancelled(t *testing.T) {
	m := openFixture(t, "")
	hands := animate(m)
	p := openPool(t, m, PoolConfig{Tokens: 320, Context: 320})
	r := Request{Tokens: ids(70), MaxTokens: 1, Sampling: quiet()}
	if _, err := Collect(p.Generate(t.Context(), "tenant", r)); err != nil {
		t.Fatal(err)
	}
	if n := atRest(p).Resting; n != 2 {
		t.Fatalf("%d pages rest, want 2", n)
	}
	release := held(t, hands)
	reader := background(p.Generate(t.Context(), "tenant", r))
	waitFor(t, p, "reading", func(s PoolStats) bool { return s.Running == 1 && s.Shared == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Forget(ctx, "tenant"); !errors.Is(err, ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("forget: %v", err)
	}
	release()
	if err := <-reader; err != nil {
		t.Error(err)
	}
	if err := p.Forget(t.Context(), "tenant"); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.Free != s.Pages {
		t.Errorf("after forgetting: %+v", s)
	}
}
