package glm

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// ledger is an audit handler that keeps the numbers of every record.
type ledger struct {
	mu      sync.Mutex
	records []map[string]slog.Value
	lines   strings.Builder
}

func (l *ledger) Enabled(context.Context, slog.Level) bool { return true }
func (l *ledger) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *ledger) WithGroup(string) slog.Handler            { return l }

func (l *ledger) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[string]slog.Value{"event": slog.StringValue(r.Message)}
	fmt.Fprintf(&l.lines, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		m[a.Key] = a.Value
		fmt.Fprintf(&l.lines, " %s=%+v", a.Key, a.Value)
		return true
	})
	l.lines.WriteString("\n")
	l.records = append(l.records, m)
	return nil
}

// last returns the numbers of the latest record of an event.
func (l *ledger) last(t *testing.T, event string) func(key string) int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range slices.Backward(l.records) {
		if r["event"].String() == event {
			return func(key string) int { return int(r[key].Int64()) }
		}
	}
	t.Fatalf("no %s in the audit", event)
	return nil
}

// A dialogue drives a session turn by turn and holds it to its accounts.
type dialogue struct {
	t       *testing.T
	model   *Model
	hands   *puppet
	pool    *KVPool
	session *Session
	audit   *ledger
	request Request

	before []int32 // prompt and reply of the turn before
}

func newDialogue(t *testing.T, m *Model) *dialogue {
	d := &dialogue{t: t, model: m, hands: animate(m), audit: &ledger{}}
	d.pool = openPool(t, m, PoolConfig{Tokens: fixtureContext, Audit: d.audit})
	d.session = openSession(t, d.pool, "")
	return d
}

// An exchange is what one generation did.
type exchange struct {
	prompt, reply []int32
	same          int // ids that the prompt shares with the turn before and its reply
	Finish
}

// say generates the reply ids and appends it. It checks everything that can be
// counted: what must be reused, what was, and what was computed.
func (d *dialogue) say(reply []int32) exchange {
	t := d.t
	t.Helper()
	p, err := d.model.prompt(&d.request)
	if err != nil {
		t.Fatal(err)
	}
	n := exchange{prompt: p.ids, reply: reply, same: common(d.before, p.ids)}
	// The last sampled id of the turn before was never fed, and one id of a
	// prompt is always computed.
	reusable := min(n.same, max(len(d.before)-1, 0), len(p.ids)-1) / pageSize * pageSize

	d.hands.say(reply...)
	rows := d.hands.fed()
	release := held(t, d.hands)
	done := make(chan error, 1)
	go func() {
		r, err := Collect(d.session.Generate(t.Context(), d.request))
		n.Finish = r.Finish
		done <- err
	}()
	waitFor(t, d.pool, "running", func(s PoolStats) bool { return s.Running == 1 })
	shared := d.pool.Stats().Shared
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	rows = d.hands.fed() - rows
	atRest(d.pool)
	ended := d.audit.last(t, "ended")
	want := Usage{Prompt: len(p.ids), Cached: reusable, Output: len(reply), Reasoning: n.Usage.Reasoning}
	if n.Usage != want {
		t.Errorf("usage %+v, want %+v", n.Usage, want)
	}
	if shared*pageSize != reusable || ended("reused") != reusable {
		t.Errorf("%d pages shared, audit says %d ids reused, want %d", shared, ended("reused"), reusable)
	}
	accounted := len(p.ids) + len(reply) - 1
	if ended("computed") != rows || ended("reused")+ended("computed") != accounted {
		t.Errorf("reused %d, computed %d, fed %d: want a sum of %d", ended("reused"), ended("computed"), rows, accounted)
	}
	if !d.hands.silent() {
		t.Errorf("not all of the reply was said: %+v", n.Finish)
	}
	d.before = slices.Concat(p.ids, reply)
	d.request.Messages = append(d.request.Messages, n.Message)
	return n
}

func common(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// written is a reply as models of the template's generation write it.
func written(template, thought, text string, call map[string]string) string {
	line, open := "", ""
	if strings.HasPrefix(template, "GLM-4.5") || strings.HasPrefix(template, "GLM-4.6") {
		line, open = "\n", "\n<think>"
	}
	s := open + thought + "</think>"
	if text != "" {
		s += line + text
	}
	if call == nil {
		return s + "<|user|>"
	}
	s += line + "<tool_call>read" + line
	for _, key := range []string{"path", "note"} {
		s += "<arg_key>" + key + "</arg_key>" + line + "<arg_value>" + call[key] + "</arg_value>" + line
	}
	return s + "</tool_call><|observation|>"
}

// Twenty turns with thinking, calls with arguments of several lines, results,
// and replies sampled as ids that no encoder would choose.
func TestDialogue(t *testing.T) {
	eachTemplate(t, func(t *testing.T, m *Model) {
		d := newDialogue(t, m)
		d.request = Request{Tools: []Tool{readTool}, MaxTokens: 200}
		keeps := strings.HasPrefix(m.Template(), "GLM-5.3")
		var prompts, cached, refilled int
		var report strings.Builder
		for i := range 20 {
			var text string
			thought := fmt.Sprintf("reading the line, %d\n\nand then the other", i)
			if i%2 == 0 {
				d.request.Messages = append(d.request.Messages, user(fmt.Sprintf("In the file %d, read line %d.", i, i)))
				text = written(m.Template(), thought, "", map[string]string{"path": fmt.Sprintf("the/file%d.go", i), "note": "the first line\n\tand the <other>\n\nthe end"})
			} else {
				last := d.request.Messages[len(d.request.Messages)-1]
				d.request.Messages = append(d.request.Messages, Message{Role: ToolRole, Content: "line:\n  and the others", ToolCallID: last.ToolCalls[0].ID})
				text = written(m.Template(), thought, fmt.Sprintf("the line reads\n\n%d", i), nil)
			}
			ids := speech(m, text)
			if canonical := m.tokens.EncodeWithAdded(nil, text); len(canonical) >= len(ids) {
				t.Fatalf("%d ids, an encoder makes %d of %q", len(ids), len(canonical), text)
			}
			before := d.before
			n := d.say(ids)
			if i%2 == 0 {
				if len(n.Message.ToolCalls) != 1 || n.Reason != FinishToolCalls {
					t.Fatalf("turn %d: %s %+v", i, n.Reason, n.Message)
				}
				if want := `{"path":"the/file` + fmt.Sprint(i) + `.go","note":"the first line\n\tand the <other>\n\nthe end"}`; string(n.Message.ToolCalls[0].Arguments) != want {
					t.Errorf("arguments %s, want %s", n.Message.ToolCalls[0].Arguments, want)
				}
			} else if n.Reason != FinishStop || n.Message.Content != fmt.Sprintf("the line reads\n\n%d", i) {
				t.Errorf("turn %d: %s %+v", i, n.Reason, n.Message)
			}
			if n.Usage.Reasoning != len(thought)+1 {
				t.Errorf("turn %d: %d ids of reasoning", i, n.Usage.Reasoning)
			}
			prompts, cached = prompts+n.Usage.Prompt, cached+n.Usage.Cached
			if i == 0 {
				continue
			}
			if n.same == len(before) {
				// Append-only: the stop id is fed once, and all but one page is reused.
				if n.Usage.Cached < len(before)-pageSize || n.prompt[len(before)] == before[len(before)-1] {
					t.Errorf("turn %d: %d of %d reused, id %d follows the stop id %d", i, n.Usage.Cached, len(before), n.prompt[len(before)], before[len(before)-1])
				}
				continue
			}
			refilled++
			role, turn := speaker(m, n.prompt[:n.same])
			fmt.Fprintf(&report, "\n%4d  %6d  %6d  %6d  the user spoke: the reasoning of %s %d is no longer shown", i+1, len(n.prompt), n.same, n.Usage.Cached, role, turn)
			if i%2 != 0 || keeps {
				t.Errorf("turn %d differs from the turn before at %d of %d", i, n.same, len(before))
			}
			// Nothing else may have changed: the first to differ is the message
			// that called in the turn before.
			if role != "<|assistant|>" || turn != i-1 {
				t.Errorf("turn %d differs in %s %d", i, role, turn)
			}
		}
		if keeps != (refilled == 0) || !keeps && refilled != 9 {
			t.Errorf("%d turns were computed anew", refilled)
		}
		t.Logf("%s: %d of %d prompt ids from the cache, %.1f%%", m.Template(), cached, prompts, 100*float64(cached)/float64(prompts))
		if refilled > 0 {
			t.Logf("%s, computed anew:\nturn  prompt    same  cached  why%s", m.Template(), report.String())
		}
	})
}

// speaker finds who speaks at the end of ids, and as which of those who spoke
// like that, from 1.
func speaker(m *Model, ids []int32) (role string, nth int) {
	spoken := map[string]int{}
	for _, id := range ids {
		switch s := string(m.tokens.Bytes(id)); s {
		case "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>":
			if id >= 256 {
				spoken[s]++
				role = s
			}
		}
	}
	return role, spoken[role]
}

// A message whose text was edited is encoded anew; what stands before it is reused.
func TestDialogueEdited(t *testing.T) {
	eachTemplate(t, func(t *testing.T, m *Model) {
		for _, edit := range []struct {
			name string
			do   func(*Message)
			new  bool
		}{
			{"none", func(*Message) {}, false},
			{"content", func(m *Message) { m.Content += " indeed" }, true},
			{"reasoning", func(m *Message) { m.Reasoning = "another line" }, true},
			{"arguments", func(m *Message) { m.ToolCalls[0].Arguments = []byte(`{"path":"other","note":""}`) }, true},
			{"name", func(m *Message) { m.ToolCalls[0].Name = "write" }, true},
			{"calls", func(m *Message) { m.ToolCalls = nil }, true},
			{"parts", func(m *Message) { m.Parts, m.Content = []chat.Part{{Type: chat.PartText, Text: m.Content}}, "" }, true},
			{"id", func(m *Message) { m.ToolCalls[0].ID = "call_of_mine" }, false},
		} {
			d := newDialogue(t, m)
			d.request = Request{Tools: []Tool{readTool}, MaxTokens: 200, Messages: []Message{user("read the line")}}
			n := d.say(speech(m, written(m.Template(), "the line", "reading the line", map[string]string{"path": "the", "note": "line"})))
			last := &d.request.Messages[1]
			edit.do(last)
			d.request.Messages = append(d.request.Messages, Message{Role: ToolRole, Content: "x"})
			p, err := m.prompt(&d.request)
			if err != nil {
				t.Fatal(err)
			}
			plain := d.request
			plain.Messages = slices.Clone(plain.Messages)
			plain.Messages[1] = Message{Role: Assistant, Content: last.Content, Parts: last.Parts, Reasoning: last.Reasoning, ToolCalls: last.ToolCalls}
			anew, err := m.prompt(&plain)
			if err != nil {
				t.Fatal(err)
			}
			if edit.new != slices.Equal(p.ids, anew.ids) {
				t.Errorf("%s: encoded anew is %v, want %v", edit.name, !edit.new, edit.new)
			}
			if whole := common(p.ids, d.before) == len(d.before); whole == edit.new {
				t.Errorf("%s: goes on from what was said is %v", edit.name, whole)
			}
			if common(p.ids, d.before) < len(n.prompt) {
				t.Errorf("%s: differs at %d, within the prompt of %d", edit.name, common(p.ids, d.before), len(n.prompt))
			}
			d.say(speech(m, "x<|user|>")) // reuses what it must
		}
	})
}

// Whatever a model says, the prompt that continues it begins with the prompt
// before and the ids that were sampled.
func TestContinuation(t *testing.T) {
	eachTemplate(t, func(t *testing.T, m *Model) {
		p := openPool(t, m, PoolConfig{Tokens: fixtureContext})
		end, _ := m.tokens.ID("<|endoftext|>")
		observation, _ := m.tokens.ID("<|observation|>")
		userID, _ := m.tokens.ID("<|user|>")
		var stopped, cut int
		for seed := uint64(1); seed <= 40; seed++ {
			r := Request{
				Messages: []Message{user("Say something that is long enough for a page or two of cache.")}, MaxTokens: int(seed%7) * 5,
				Sampling: &Sampling{Temperature: 1.5, Seed: seed, LogProbs: true, LogitBias: map[int32]float32{}},
			}
			if r.MaxTokens == 0 {
				r.MaxTokens = 1
			}
			for _, a := range m.tokens.Added() { // tags that matter, more often
				switch a.Content {
				case "<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<|user|>", "<|observation|>", "<|endoftext|>":
					r.Sampling.LogitBias[a.ID] = 3
				}
			}
			// A result goes on in the same turn, where reasoning is shown; a user
			// begins a new one, for which thinking must be off or kept.
			next, opener := Message{Role: ToolRole, Content: "ok"}, observation
			if seed%2 == 0 {
				r.Effort, next, opener = EffortNone, user("Go on."), userID
			}
			before, err := m.prompt(&r)
			if err != nil {
				t.Fatal(err)
			}
			s := openSession(t, p, "")
			first, err := Collect(s.Generate(t.Context(), r))
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(before.ids)
			for _, tok := range first.Tokens {
				want = append(want, tok.ID)
			}
			switch last := want[len(want)-1]; last {
			case userID, observation: // the next message prints its own
				want[len(want)-1] = opener
				stopped++
			case end:
				want = append(want, opener)
				stopped++
			default:
				want = append(want, end, opener)
				cut++
			}
			r.Messages = append(r.Messages, first.Message, next)
			after, err := m.prompt(&r)
			if err != nil {
				t.Fatal(err)
			}
			if n := common(after.ids, want); n != len(want) {
				t.Fatalf("seed %d: %s: the prompt differs from what was said at %d of %d", seed, first.Reason, n, len(want))
			}
			second, err := Collect(s.Generate(t.Context(), r))
			if err != nil {
				t.Fatal(err)
			}
			if want := (len(before.ids) + len(first.Tokens) - 1) / pageSize * pageSize; second.Usage.Cached != want || second.Usage.Prompt != len(after.ids) {
				t.Errorf("seed %d: %+v, want %d from the cache", seed, second.Usage, want)
			}
		}
		t.Logf("%d replies ended, %d were cut off", stopped, cut)
		if stopped < 5 || cut < 5 {
			t.Errorf("%d replies ended, %d were cut off: one kind is not tried", stopped, cut)
		}
	})
}
