package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/google/go-cmp/cmp"
)

type wordArgument struct {
	Word string `json:"word"`
}

// shout is a tool that cannot fail.
func shout() Tool {
	return Func("shout", "Says a word loudly.", func(_ context.Context, in wordArgument) (string, error) {
		return strings.ToUpper(in.Word), nil
	})
}

// A tool is called with its typed arguments, its result is shown to the model,
// and the run ends with the answer.
func TestRun(t *testing.T) {
	a, s := scripted(t, Config{Tools: []Tool{shout()}, System: "Be brief."},
		asks(wire("shout", "word", "hello")), says("It is HELLO."))
	events, err := collect(a.Run(t.Context(), "Say hello loudly."))
	if err != nil {
		t.Fatal(err)
	}
	results, done := of[Result](events), of[Done](events)
	if len(results) != 1 || results[0].Text != "HELLO" || results[0].Failed || results[0].Call.Name != "shout" {
		t.Errorf("results %+v", results)
	}
	if len(done) != 1 || done[0].Text != "It is HELLO." || done[0].Steps != 2 || len(of[Step](events)) != 2 {
		t.Errorf("done %+v", done)
	}
	if _, last := events[len(events)-1].(Done); !last {
		t.Errorf("the last event is %T", events[len(events)-1])
	}
	want := ids(s.model, "[gMASK]<sop><|system|>Reasoning Effort: Max")
	if !slices.Equal(s.prompts[0][:len(want)], want) {
		t.Errorf("the prompt begins with %v", s.prompts[0][:len(want)])
	}
	tail := ids(s.model, "<|system|>Be brief.<|user|>Say hello loudly.<|assistant|><think>I think.</think>"+
		wire("shout", "word", "hello")+"<|observation|><tool_response>HELLO</tool_response><|assistant|><think>")
	if got := s.prompts[1]; !slices.Equal(got[max(len(got)-len(tail), 0):], tail) {
		t.Errorf("the second prompt ends with %q", a.tokens.Decode(got[max(len(got)-len(tail), 0):]))
	}
	if a.Unfinished() {
		t.Error("unfinished after the answer")
	}
	if _, err := collect(a.Continue(t.Context())); !errors.Is(err, ErrNothingToDo) {
		t.Errorf("Continue after the answer: %v", err)
	}
}

// Whatever is wrong with a call is told to the model, and the run goes on.
func TestErrorsGoToTheModel(t *testing.T) {
	fails := Func("fails", "", func(context.Context, struct{}) (string, error) { return "", errors.New("the disk is full") })
	panics := Func("panics", "", func(context.Context, struct{}) (string, error) { panic("oh no") })
	for _, test := range []struct{ call, want string }{
		{wire("fails"), "error: the disk is full"},
		{wire("panics"), "error: the tool panicked: oh no"},
		{wire("whisper", "word", "x"), "error: no tool whisper"},
		{wire("shout"), "error: wrong arguments: word: want a value, have none"},
		{wire("shout", "word", "x", "loud", "yes"), "error: wrong arguments: loud: want no such property, have a value"},
		{wire("shout", "word", "x", "word", "y"), "error: wrong arguments: argument 2: a parameter has two values"},
		{"<tool_call>shout<arg_key>word</tool_call>", "error: wrong arguments: a tag in the wrong place: want </arg_key>, have </tool_call>"},
	} {
		a, s := scripted(t, Config{Tools: []Tool{shout(), fails, panics}}, asks(test.call), says("I see."))
		events, err := collect(a.Run(t.Context(), "Go."))
		if err != nil {
			t.Errorf("%s: %v", test.call, err)
			continue
		}
		r := of[Result](events)
		if len(r) != 1 || !strings.HasPrefix(r[0].Text, test.want) || !r[0].Failed {
			t.Errorf("%s: results %+v, want %s", test.call, r, test.want)
			continue
		}
		shown := a.tokens.Encode(ids(s.model, "<tool_response>"), r[0].Text)
		if !contains(s.prompts[1], shown) {
			t.Errorf("%s: the model is not shown %q", test.call, r[0].Text)
		}
		if !contains(s.prompts[1], ids(s.model, test.call)) {
			t.Errorf("%s: the model does not see its own call", test.call)
		}
	}
}

func contains(ids, part []int32) bool {
	for i := range ids {
		if slices.Equal(ids[i:min(i+len(part), len(ids))], part) {
			return true
		}
	}
	return false
}

// Calls of a reply run at the same time and answer in their order; a tool that
// runs alone separates what is before it from what is after.
func TestParallelCalls(t *testing.T) {
	var mu sync.Mutex
	var order []string
	met := make(chan struct{})
	note := func(s string) { mu.Lock(); defer mu.Unlock(); order = append(order, s) }
	meet := Func("meet", "", func(ctx context.Context, in wordArgument) (string, error) {
		note("begin " + in.Word)
		select { // two of them have to be there at once
		case met <- struct{}{}:
		case <-met:
		case <-time.After(10 * time.Second):
			return "", errors.New("nobody came")
		}
		return in.Word, nil
	})
	change := Func("change", "", func(context.Context, struct{}) (string, error) { note("change"); return "changed", nil })
	change.Alone = true
	a, s := scripted(t, Config{Tools: []Tool{meet, change}},
		asks(wire("meet", "word", "a"), wire("meet", "word", "b"), wire("change"), wire("meet", "word", "c"), wire("meet", "word", "d")),
		says("Done."))
	events, err := collect(a.Run(t.Context(), "Go."))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range of[Result](events) {
		texts = append(texts, r.Text)
	}
	if want := []string{"a", "b", "changed", "c", "d"}; !slices.Equal(texts, want) {
		t.Errorf("results %q, want %q", texts, want)
	}
	if order[2] != "change" {
		t.Errorf("order %q", order)
	}
	if want := ids(s.model, "<|observation|><tool_response>a</tool_response><tool_response>b</tool_response><tool_response>changed</tool_response>"); !contains(s.prompts[1], want) {
		t.Error("the results are not in the order of the calls")
	}
}

func TestBudgets(t *testing.T) {
	again := asks(wire("shout", "word", "x"))
	for _, test := range []struct {
		config Config
		want   BudgetError
	}{
		{Config{Steps: 3}, BudgetError{"Steps", 3}},
		{Config{StepTokens: 10}, BudgetError{"StepTokens", 10}},
		{Config{Tokens: 2*len(idsOf(again)) + 5}, BudgetError{"Tokens", 2*len(idsOf(again)) + 5}},
		{Config{Tokens: 2 * len(idsOf(again))}, BudgetError{"Tokens", 2 * len(idsOf(again))}},
	} {
		test.config.Tools = []Tool{shout()}
		a, s := scripted(t, test.config, again, again, again, again)
		_, err := collect(a.Run(t.Context(), "Go."))
		got, ok := errors.AsType[*BudgetError](err)
		if !ok || !errors.Is(err, ErrBudget) || *got != test.want {
			t.Errorf("%+v: %v", test.want, err)
			continue
		}
		if test.want.Budget != "Steps" {
			continue
		}
		// With a new budget it goes on from there.
		before := len(s.prompts)
		s.replies = []string{says("Enough.")}
		events, err := collect(a.Continue(t.Context()))
		if err != nil || len(of[Done](events)) != 1 || len(s.prompts) != before+1 {
			t.Errorf("Continue: %v, %+v", err, events)
		}
	}
}

func idsOf(text string) []int32 {
	files, err := fixtureFS()
	if err != nil {
		panic(err)
	}
	m, err := glm.OpenFS(context.Background(), files, glm.Config{Template: "GLM-5.3"})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	return ids(m, text)
}

// The same call failing in the same way ends the run; other failures do not add up
// to it.
func TestRepeats(t *testing.T) {
	n := 0
	fails := Func("fails", "", func(_ context.Context, in wordArgument) (string, error) {
		n++
		return "", fmt.Errorf("no %s", in.Word)
	})
	a, _ := scripted(t, Config{Tools: []Tool{fails}, Repeats: 3},
		asks(wire("fails", "word", "a")), asks(wire("fails", "word", "b")), asks(wire("fails", "word", "a")),
		asks(wire("gone")), asks(wire("fails", "word", "b")), asks(wire("fails", "word", "a")), says("never"))
	_, err := collect(a.Run(t.Context(), "Go."))
	got, ok := errors.AsType[*RepeatError](err)
	if !ok || !errors.Is(err, ErrRepeat) || *got != (RepeatError{"fails", 3}) || n != 5 {
		t.Errorf("%v after %d calls", err, n)
	}
}

// A context that ends while tools run ends the run; the call is run again by
// Continue, the results that were there are not.
func TestCancelDuringTools(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	counts := map[string]int{}
	var mu sync.Mutex
	count := func(s string) { mu.Lock(); defer mu.Unlock(); counts[s]++ }
	quick := Func("quick", "", func(context.Context, struct{}) (string, error) { count("quick"); return "quick", nil })
	quick.Alone = true
	begun := make(chan struct{})                                               // a call that has not begun when the context ends does not begin
	deaf := Func("deaf", "", func(context.Context, struct{}) (string, error) { // ends well after the context has ended
		close(begun)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond)
		count("deaf")
		return "deaf", nil
	})
	first := true
	slow := Func("slow", "", func(ctx context.Context, _ struct{}) (string, error) {
		count("slow")
		if first {
			first = false
			<-begun
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "slow", nil
	})
	a, s := scripted(t, Config{Tools: []Tool{quick, slow, deaf}}, asks(wire("quick"), wire("slow"), wire("deaf")), says("Done."))
	_, err := collect(a.Run(ctx, "Go."))
	if !errors.Is(err, glm.ErrCanceled) || !errors.Is(err, context.Canceled) || !a.Unfinished() {
		t.Fatalf("%v, unfinished %v", err, a.Unfinished())
	}
	events, err := collect(a.Continue(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"quick": 1, "slow": 2, "deaf": 1}; !cmp.Equal(counts, want) {
		t.Errorf("calls %v, want %v", counts, want)
	}
	if r := of[Result](events); len(r) != 1 || r[0].Text != "slow" {
		t.Errorf("results of Continue %+v", r)
	}
	if !contains(s.prompts[1], ids(s.model, "<tool_response>quick</tool_response><tool_response>slow</tool_response><tool_response>deaf</tool_response>")) {
		t.Error("a result got lost")
	}
}

// Leaving the loop, wherever, leaves an agent that can go on, and the next prompt
// is then the same as without leaving.
func TestLeave(t *testing.T) {
	script := []string{asks(wire("shout", "word", "a"), wire("shout", "word", "b")), says("Done.")}
	config := Config{Tools: []Tool{shout()}}
	whole, s := scripted(t, config, script...)
	events, err := collect(whole.Run(t.Context(), "Go."))
	if err != nil {
		t.Fatal(err)
	}
	for stop := range events {
		a, s2 := scripted(t, config, script...)
		n := 0
		for range a.Run(t.Context(), "Go.") {
			if n == stop {
				break
			}
			n++
		}
		s2.replies = slices.Clone(script)
		if a.Unfinished() {
			if len(a.messages) > 1 { // the first reply is part of the conversation
				s2.replies = s2.replies[1:]
			}
			if _, err := collect(a.Continue(t.Context())); err != nil {
				t.Errorf("left at event %d: %v", stop, err)
				continue
			}
		}
		if got := s2.prompts[len(s2.prompts)-1]; !slices.Equal(got, s.prompts[1]) {
			t.Errorf("left at event %d: the last prompt differs", stop)
		}
	}
}

// A run that goes on with other words answers what was not run.
func TestRunAfterLeaving(t *testing.T) {
	a, s := scripted(t, Config{Tools: []Tool{shout()}}, asks(wire("shout", "word", "a")), says("Well."))
	for ev := range a.Run(t.Context(), "Go.") {
		if _, ok := ev.(Step); ok {
			break
		}
	}
	if _, err := collect(a.Run(t.Context(), "Forget it.")); err != nil {
		t.Fatal(err)
	}
	if !contains(s.prompts[1], ids(s.model, "<tool_response>error: not run</tool_response><|user|>Forget it.<|assistant|>")) {
		t.Errorf("the prompt is %q", a.tokens.Decode(s.prompts[1]))
	}
}

func TestContextLow(t *testing.T) {
	a, _ := scripted(t, Config{Tools: []Tool{shout()}, StepTokens: 3000}, asks(wire("shout", "word", strings.Repeat("x", 600))), says("Done."))
	events, err := collect(a.Run(t.Context(), "Go."))
	if err != nil {
		t.Fatal(err)
	}
	low := of[ContextLow](events)
	if len(low) != 1 || low[0].Limit != fixtureContext || low[0].Prompt == 0 {
		t.Errorf("%+v", low)
	}
}

// A prompt that does not fit is refused with the numbers, not cut.
func TestContextExceeded(t *testing.T) {
	m, pool := openFixture(t, glm.PoolConfig{Tokens: 1024, Context: 1024})
	a, err := New(m, pool, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, err = collect(a.Run(t.Context(), strings.Repeat("word ", 400)))
	if e, ok := errors.AsType[*glm.ContextError](err); !ok || e.Prompt < 2000 || e.Max != 1024 {
		t.Errorf("%v", err)
	}
}

// A pool that cuts replies to what there is ends the run in the same way.
func TestContextUsedUpByReply(t *testing.T) {
	m, pool := openFixture(t, glm.PoolConfig{Tokens: 512, Context: 512, Admission: glm.Clamp})
	id, _ := m.Tokenizer().ID("</think>")
	never := &glm.Sampling{LogitBias: map[int32]float32{id: 100}} // says nothing else
	a, err := New(m, pool, Config{Sampling: never, StepTokens: 2000})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, err = collect(a.Run(t.Context(), "Go."))
	e, ok := errors.AsType[*glm.ContextError](err)
	if !ok || e.Output != 2000 || e.Max != 512 || e.Limit != pool.Limits().Binding {
		t.Errorf("%v", err)
	}
	if !a.Unfinished() {
		t.Error("the cut reply became part of the conversation")
	}
}

func TestNewRefuses(t *testing.T) {
	m, pool := openFixture(t, glm.PoolConfig{})
	nameless, silent := shout(), shout()
	nameless.Name, silent.Call = "", nil
	schema := shout()
	schema.Parameters = []byte(`[]`)
	for field, c := range map[string]Config{
		"Config.Steps":               {Steps: -1},
		"Config.StepTokens":          {StepTokens: -1},
		"Config.Tokens":              {Tokens: -1},
		"Config.Repeats":             {Repeats: -1},
		"Config.Tools[0].Name":       {Tools: []Tool{nameless}},
		"Config.Tools[0].Call":       {Tools: []Tool{silent}},
		"Config.Tools[1].Name":       {Tools: []Tool{shout(), shout()}},
		"Config.Tools[0].Parameters": {Tools: []Tool{schema}},
		"Config.Tools[0]":            {Tools: []Tool{Func("f", "", func(context.Context, func()) (string, error) { return "", nil })}},
	} {
		_, err := New(m, pool, c)
		if e, ok := errors.AsType[*glm.RequestError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(nil, pool, Config{}); !errors.Is(err, glm.ErrInvalidRequest) {
		t.Errorf("no model: %v", err)
	}
	if _, err := New(m, nil, Config{}); !errors.Is(err, glm.ErrInvalidRequest) {
		t.Errorf("no pool: %v", err)
	}
}

func TestBusy(t *testing.T) {
	a, _ := scripted(t, Config{}, says("Yes."))
	for range a.Run(t.Context(), "Are you there?") {
		if _, err := collect(a.Run(t.Context(), "And now?")); !errors.Is(err, ErrBusy) {
			t.Fatalf("%v", err)
		}
	}
}
