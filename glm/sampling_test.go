package glm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sampled returns the ids of a generation from ids.
func sampled(t *testing.T, s *Session, r Request) []int32 {
	t.Helper()
	reply, err := Collect(s.Generate(t.Context(), r))
	if err != nil {
		t.Fatal(err)
	}
	return tokenIDs(reply.Tokens)
}

func tokenIDs(tokens []Token) []int32 {
	out := make([]int32, len(tokens))
	for i, tok := range tokens {
		out[i] = tok.ID
	}
	return out
}

// unstopped is sampling that never ends a reply.
func unstopped(s Sampling) *Sampling {
	bias := quiet().LogitBias
	for id, b := range s.LogitBias {
		bias[id] = b
	}
	s.LogitBias = bias
	return &s
}

// samplingBench opens the fixture and a session to sample from.
func samplingBench(t *testing.T) (*Model, *KVPool, *Session) {
	t.Helper()
	m := openFixture(t, "")
	p := openPool(t, m, PoolConfig{Tokens: fixtureContext})
	return m, p, openSession(t, p, "")
}

// withGeneration is the fixture with fields added to generation_config.json.
func withGeneration(t *testing.T, fields map[string]any) fstest.MapFS {
	t.Helper()
	files := fixtureFiles()
	all := map[string]any{"eos_token_id": fixtureStops()}
	for k, v := range fields {
		all[k] = v
	}
	files["generation_config.json"] = &fstest.MapFile{Data: encode(all), Mode: 0o600}
	return files
}

// Greedy takes the most likely id, and of equals the lowest: the head's row of
// the winner is copied to others, before and behind it.
func TestGreedyTies(t *testing.T) {
	prompt := ids(20)
	r := Request{Tokens: prompt, MaxTokens: 12, Sampling: unstopped(Sampling{TopLogProbs: 5})}
	_, _, s := samplingBench(t)
	reply, err := Collect(s.Generate(t.Context(), r))
	if err != nil {
		t.Fatal(err)
	}
	for i, tok := range reply.Tokens {
		if len(tok.Top) != 5 || tok.Top[0].ID != tok.ID || tok.Top[0].LogProb != tok.LogProb || tok.Top[1].LogProb > tok.LogProb {
			t.Errorf("token %d: %+v", i, tok)
		}
	}
	winner := reply.Tokens[0].ID
	if winner < 2 {
		t.Fatalf("the winner %d has nobody before it", winner)
	}
	files := fixtureFiles()
	data := slices.Clone(files["model.safetensors"].Data)
	begin, end := tensorAt(t, data, "lm_head.weight")
	size := (end - begin) / fixtureVocab
	row := func(id int32) []byte { return data[begin+int(id)*size : begin+int(id+1)*size] }
	before, behind := winner/2, winner+1
	copy(row(before), row(winner))
	copy(row(behind), row(winner))
	files["model.safetensors"] = &fstest.MapFile{Data: data, Mode: 0o600}
	m := openFiles(t, files, Config{})
	s = openSession(t, openPool(t, m, PoolConfig{Tokens: fixtureContext}), "")
	r.MaxTokens = 1
	for _, sampling := range []Sampling{{TopLogProbs: 5}, {TopLogProbs: 5, Temperature: 3, TopK: 1, Seed: 9}, {TopLogProbs: 5, Temperature: 3, TopP: 1e-6, Seed: 9}} {
		r.Sampling = unstopped(sampling)
		reply, err := Collect(s.Generate(t.Context(), r))
		if err != nil {
			t.Fatal(err)
		}
		tok := reply.Tokens[0]
		if tok.ID != before || tok.Top[0].ID != before || tok.Top[1].ID != winner || tok.Top[2].ID != behind || tok.Top[0].LogProb != tok.Top[2].LogProb {
			t.Errorf("%+v: %+v, want %d before %d and %d", sampling, tok, before, winner, behind)
		}
	}
	// MinP 1 keeps all three.
	seen := map[int32]bool{}
	for seed := uint64(1); seed < 60; seed++ {
		r.Sampling = unstopped(Sampling{Temperature: 1, MinP: 1, Seed: seed})
		seen[sampled(t, s, r)[0]] = true
	}
	if len(seen) != 3 || !seen[before] || !seen[winner] || !seen[behind] {
		t.Errorf("with MinP 1: %v, want %d, %d and %d", seen, before, winner, behind)
	}
}

// A seed gives the same ids wherever it is used; another gives others; without
// one every session, and every generation of it, draws its own.
func TestSeeds(t *testing.T) {
	_, p, s := samplingBench(t)
	r := Request{Tokens: ids(40), MaxTokens: 24}
	with := func(seed uint64) Request {
		r := r
		r.Sampling = unstopped(Sampling{Temperature: 1.5, Seed: seed})
		return r
	}
	seen := map[string]uint64{}
	for seed := uint64(1); seed <= 12; seed++ {
		first := sampled(t, s, with(seed))
		if again := sampled(t, openSession(t, p, "tenant"), with(seed)); !slices.Equal(first, again) {
			t.Errorf("seed %d: %v, then %v", seed, first, again)
		}
		if other, ok := seen[fmt.Sprint(first)]; ok {
			t.Errorf("seeds %d and %d give the same", seed, other)
		}
		seen[fmt.Sprint(first)] = seed
	}
	for range 6 {
		s := openSession(t, p, "")
		for range 2 {
			drawn := fmt.Sprint(sampled(t, s, with(0)))
			if other, ok := seen[drawn]; ok {
				t.Errorf("drawn twice, the other time with seed %d: %v", other, drawn)
			}
			seen[drawn] = 0
		}
	}
}

// Ids come as often as their probabilities say, seeds counting up.
func TestDistribution(t *testing.T) {
	_, _, s := samplingBench(t)
	for _, sampling := range []Sampling{
		{Temperature: 1, TopK: 4}, {Temperature: 2, TopK: 6}, {Temperature: 0.5, TopK: 3}, {Temperature: 1, TopK: 8, TopP: 0.6}, {Temperature: 1, TopK: 8, MinP: 0.5},
	} {
		sampling.TopLogProbs = 20
		r := Request{Tokens: ids(33), MaxTokens: 1}
		count := map[int32]int{}
		var top []TokenProb
		const n = 400
		for seed := uint64(1); seed <= n; seed++ {
			sampling.Seed = seed
			r.Sampling = unstopped(sampling)
			reply, err := Collect(s.Generate(t.Context(), r))
			if err != nil {
				t.Fatal(err)
			}
			count[reply.Tokens[0].ID]++
			top = reply.Tokens[0].Top
		}
		// The same cut by hand: temperature, TopK, TopP, MinP, in that order.
		want := map[int32]float64{}
		var sum, run float64
		for _, p := range top[:sampling.TopK] {
			sum += math.Exp(float64(p.LogProb) / float64(sampling.Temperature))
		}
		var kept float64
		for i, p := range top[:sampling.TopK] {
			x := math.Exp(float64(p.LogProb)/float64(sampling.Temperature)) / sum
			largest := math.Exp(float64(top[0].LogProb)/float64(sampling.Temperature)) / sum
			if sampling.TopP > 0 && i > 0 && run >= float64(sampling.TopP) || x < float64(sampling.MinP)*largest {
				break
			}
			run += x
			kept += x
			want[p.ID] = x
		}
		for id, x := range want {
			x /= kept
			sigma := math.Sqrt(x * (1 - x) / n)
			if have := float64(count[id]) / n; math.Abs(have-x) > 4*sigma {
				t.Errorf("%+v: id %d came in %.3f, want %.3f +- %.3f", sampling, id, have, x, sigma)
			}
			delete(count, id)
		}
		if len(count) > 0 || len(want) < 2 {
			t.Errorf("%+v: %v were cut off and came; %d ids are left", sampling, count, len(want))
		}
	}
}

// Stop strings are found wherever ids are cut, end the reply before them, and
// leave nothing of themselves in the history.
func TestStopStrings(t *testing.T) {
	m, p, _ := samplingBench(t)
	hands := animate(m)
	for _, c := range []struct {
		said, text string
		stop       []string
		reason     FinishReason
		left       int // ids that are not sampled any more
	}{
		{"</think>the end of it<|user|>", "the ", []string{"end"}, FinishStop, 7},
		{"</think>the end of it<|user|>", "th", []string{"e e"}, FinishStop, 9},
		{"</think>the end of it<|user|>", "", []string{"t"}, FinishStop, 13},
		{"</think>the end of it<|user|>", "the ", []string{"of", "end"}, FinishStop, 7},
		{"</think>the end of it<|user|>", "the ", []string{"end of it!", "end"}, FinishStop, 7},
		{"</think>the end<|user|>", "the end", []string{"ende", "end "}, FinishStop, 0},
		{"</think>the end<|user|>", "the end", nil, FinishStop, 0},
		{"</think>aaab<|user|>", "a", []string{"aab"}, FinishStop, 1},
		{"</think>h\u00e9llo w\u00f6rld<|user|>", "h\u00e9llo w", []string{"\u00f6"}, FinishStop, 4},
		{"end</think>the end of<|user|>", "the ", []string{"end"}, FinishStop, 4}, // thoughts do not count
		{"</think>a<tool_call>read<arg_key>path</arg_key><arg_value>the end</arg_value></tool_call><|observation|>", "a", []string{"end"}, FinishToolCalls, 0},
		{"</think>the end", "the e", []string{"enough", "end."}, FinishLength, 0},
	} {
		said := speech(m, c.said)
		r := Request{Messages: []Message{user("x")}, Tools: []Tool{readTool}, Stop: c.stop, MaxTokens: 100}
		if c.reason == FinishLength {
			said = said[:len(said)-2]
			r.MaxTokens = len(said)
		}
		hands.say(said...)
		s := openSession(t, p, "")
		var text strings.Builder
		var finish Finish
		for ev, err := range s.Generate(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case TextDelta:
				text.WriteString(ev.Text)
			case Finish:
				finish = ev
			}
		}
		hands.mu.Lock()
		left := len(hands.lines)
		hands.mu.Unlock()
		if text.String() != c.text || finish.Message.Content != c.text || finish.Reason != c.reason || left != c.left || finish.Usage.Output != len(said)-left {
			t.Errorf("%q, stop %q: %q, %s, %d ids left, %+v", c.said, c.stop, text.String(), finish.Reason, left, finish.Usage)
		}
		// The next prompt says what the message says.
		r.Messages = append(r.Messages, finish.Message, Message{Role: ToolRole, Content: "y"})
		next, err := m.prompt(&r)
		if err != nil {
			t.Fatal(err)
		}
		r.Messages[1] = Message{Role: Assistant, Reasoning: finish.Message.Reasoning, Content: c.text, ToolCalls: finish.Message.ToolCalls}
		anew, err := m.prompt(&r)
		if err != nil {
			t.Fatal(err)
		}
		if cut := c.left > 0; cut != slices.Equal(next.ids, anew.ids) {
			t.Errorf("%q, stop %q: cut is %v, the next prompt %q, from the text %q", c.said, c.stop, cut, m.tokens.Decode(next.ids), m.tokens.Decode(anew.ids))
		}
	}
	// Merged tokens, sampled whole.
	hands.say(append([]int32{mustID(m, "</think>")}, append(m.tokens.Encode(nil, " the reading and"), mustID(m, "<|user|>"))...)...)
	reply, err := Collect(p.Generate(t.Context(), "", Request{Messages: []Message{user("x")}, Stop: []string{"ead"}, MaxTokens: 50}))
	if err != nil || reply.Text != "the r" || reply.Reason != FinishStop {
		t.Errorf("merged tokens: %q, %s, %v", reply.Text, reply.Reason, err)
	}
	// Requests of ids have an answer, too.
	hands.say(speech(m, "the end<|user|>")...)
	reply, err = Collect(p.Generate(t.Context(), "", Request{Tokens: ids(3), Stop: []string{"en"}, MaxTokens: 50}))
	if err != nil || reply.Text != "the " || reply.Reason != FinishStop || len(reply.Tokens) != 6 {
		t.Errorf("ids: %q, %s, %d ids, %v", reply.Text, reply.Reason, len(reply.Tokens), err)
	}
}

// A stop string that shows only when the reply ends, since text behind a call is
// held back, cuts the history as well.
func TestStopStringAtTheEnd(t *testing.T) {
	m, _, s := samplingBench(t)
	hands := animate(m)
	hands.say(speech(m, "</think>a<tool_call>read<arg_key>path</arg_key><arg_value>x</arg_value></tool_call>b END c<|user|>")...)
	r := Request{Messages: []Message{user("x")}, Tools: []Tool{readTool}, Stop: []string{"END"}, MaxTokens: 100}
	reply, err := Collect(s.Generate(t.Context(), r))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(reply.Text, "END") || strings.Contains(reply.Text, "c") || len(reply.ToolCalls) != 1 {
		t.Errorf("%+v", reply)
	}
	r.Messages = append(r.Messages, reply.Message, Message{Role: ToolRole, Content: "y", ToolCallID: reply.ToolCalls[0].ID})
	next, err := m.prompt(&r)
	if err != nil {
		t.Fatal(err)
	}
	if shown := m.tokens.Decode(next.ids); strings.Contains(shown, "END") {
		t.Errorf("the next prompt says more than the message %+v: %q", reply.Message, shown)
	}
}

// A bias bans and forces, and nothing brings in an id that is no token.
func TestLogitBias(t *testing.T) {
	m, _, s := samplingBench(t)
	r := Request{Tokens: ids(20), MaxTokens: 40, Sampling: quiet()}
	for range 20 { // ban winner after winner
		winner := sampled(t, s, r)
		for _, id := range winner {
			if b, banned := r.Sampling.LogitBias[id]; banned {
				t.Fatalf("id %d has bias %v and was sampled", id, b)
			}
		}
		r.Sampling.LogitBias[winner[0]] = float32(math.Inf(-1))
	}
	for _, temperature := range []float32{0, 1, 50} {
		r.Sampling = &Sampling{Temperature: temperature, LogitBias: map[int32]float32{'z': 1e6}}
		if got := sampled(t, s, r); !slices.Equal(got, slices.Repeat([]int32{'z'}, 40)) {
			t.Errorf("temperature %v: %v, want only %d", temperature, got, 'z')
		}
		// Ids that have logits and no token.
		r.Sampling = &Sampling{Temperature: temperature, Seed: 3, LogitBias: map[int32]float32{}}
		for id := m.tokens.Size(); id < fixtureVocab; id++ {
			r.Sampling.LogitBias[int32(id)] = 1e6
		}
		for seed := uint64(1); seed < 5; seed++ {
			r.Sampling.Seed = seed
			for _, id := range sampled(t, s, r) {
				if int(id) >= m.tokens.Size() {
					t.Fatalf("id %d was sampled, there are %d tokens", id, m.tokens.Size())
				}
			}
		}
	}
	// All but one banned leaves that one, at every temperature.
	r.Sampling = &Sampling{Temperature: 100, LogitBias: map[int32]float32{}}
	for id := range int32(m.tokens.Size()) {
		if id != 'k' {
			r.Sampling.LogitBias[id] = float32(math.Inf(-1))
		}
	}
	if got := sampled(t, s, r); !slices.Equal(got, slices.Repeat([]int32{'k'}, 40)) {
		t.Errorf("all but one banned: %v", got)
	}
}

// Presence and frequency lower the logits of sampled ids by what they say,
// repetition scales those of prompt and output.
func TestPenalties(t *testing.T) {
	_, _, s := samplingBench(t)
	prompt := ids(26)
	base := Request{Tokens: prompt, MaxTokens: 60}
	sample := func(p Sampling) []int32 {
		r := base
		r.Sampling = unstopped(p)
		return sampled(t, s, r)
	}
	distinct := func(ids []int32) int {
		ids = slices.Clone(ids)
		slices.Sort(ids)
		return len(slices.Compact(ids))
	}
	plain := sample(Sampling{})
	for _, p := range []Sampling{{Presence: 100}, {Frequency: 100}, {Presence: 50, Frequency: 50}} {
		if got := sample(p); distinct(got) != 60 || got[0] != plain[0] {
			t.Errorf("%+v: %d different ids of 60, the first %d, without %d", p, distinct(got), got[0], plain[0])
		}
	}
	for _, p := range []Sampling{{Presence: -100}, {Frequency: -100}} {
		if got := sample(p); distinct(got) != 1 {
			t.Errorf("%+v: %v, want one id over and over", p, got)
		}
	}
	if got := sample(Sampling{Repetition: 1}); !slices.Equal(got, plain) {
		t.Errorf("repetition 1: %v, without %v", got, plain)
	}
	// Repetition reaches into the prompt. The prompt holds the winner here.
	won := append(slices.Clone(prompt), plain[0])
	for tries := 0; ; tries++ {
		base.Tokens, base.MaxTokens = won, 1
		w := sample(Sampling{})[0]
		if slices.Contains(won, w) {
			if got := sample(Sampling{Repetition: 100})[0]; slices.Contains(won, got) {
				t.Errorf("repetition 100: %d, which is in the prompt like the winner %d", got, w)
			}
			if got := sample(Sampling{Presence: 100, Frequency: 100})[0]; got != w {
				t.Errorf("presence reaches into the prompt: %d, want %d", got, w)
			}
			break
		}
		if won = append(won, w); tries > 300 {
			t.Fatal("no prompt holds its own continuation")
		}
	}
	// By how much: of two ids one was sampled once, the other never.
	base.MaxTokens = 4
	pairs := 0
	for n := range 20 {
		base.Tokens = ids(10 + n)
		tokens := func(p Sampling) []Token {
			p.TopLogProbs = 20
			r := base
			r.Sampling = unstopped(p)
			reply, err := Collect(s.Generate(t.Context(), r))
			if err != nil {
				t.Fatal(err)
			}
			return reply.Tokens
		}
		const presence, frequency = 0.25, 0.5
		without, with := tokens(Sampling{}), tokens(Sampling{Presence: presence, Frequency: frequency})
		for i := range without {
			if i > 0 && !slices.Equal(tokenIDs(without[:i]), tokenIDs(with[:i])) {
				break
			}
			times := map[int32]float64{}
			for _, tok := range without[:i] {
				times[tok.ID]++
			}
			lp := func(tok Token, id int32) (float64, bool) {
				at := slices.IndexFunc(tok.Top, func(p TokenProb) bool { return p.ID == id })
				if at < 0 {
					return 0, false
				}
				return float64(tok.Top[at].LogProb), true
			}
			for id, count := range times {
				other := without[i].Top[0].ID
				if times[other] > 0 {
					continue
				}
				a, okA := lp(without[i], id)
				b, okB := lp(with[i], id)
				oa, okOA := lp(without[i], other)
				ob, okOB := lp(with[i], other)
				if !okA || !okB || !okOA || !okOB {
					continue
				}
				pairs++
				if have, want := (a-oa)-(b-ob), presence+frequency*count; math.Abs(have-want) > 1e-4 {
					t.Errorf("an id sampled %v times was lowered by %v, want %v", count, have, want)
				}
			}
		}
	}
	if pairs < 3 {
		t.Errorf("only %d pairs compared", pairs)
	}
}

// Token events: for ids always, for messages when asked; probabilities that are
// some; as many as were sampled.
func TestLogProbs(t *testing.T) {
	_, _, s := samplingBench(t)
	said := Request{Messages: []Message{user("x")}, MaxTokens: 15}
	for _, c := range []struct {
		r    Request
		top  int
		want bool
	}{
		{Request{Tokens: ids(5), MaxTokens: 15, Sampling: quiet()}, 0, true},
		{said, 0, false},
		{said, 20, false},
		{said, 3, true},
	} {
		r := c.r
		r.Sampling = unstopped(Sampling{Temperature: 1, Seed: 4, LogProbs: c.want, TopLogProbs: c.top})
		reply, err := Collect(s.Generate(t.Context(), r))
		if err != nil {
			t.Fatal(err)
		}
		if want := 15; !c.want && len(reply.Tokens) != 0 || c.want && len(reply.Tokens) != want || reply.Usage.Output != want {
			t.Errorf("%d Token events, usage %+v", len(reply.Tokens), reply.Usage)
		}
		for i, tok := range reply.Tokens {
			if !(tok.LogProb <= 0) || math.IsInf(float64(tok.LogProb), 0) || len(tok.Top) != c.top {
				t.Errorf("token %d: %+v, want %d alternatives", i, tok, c.top)
			}
			var sum float64
			for j, p := range tok.Top {
				sum += math.Exp(float64(p.LogProb))
				if j > 0 && p.LogProb > tok.Top[j-1].LogProb || p.ID == tok.ID && p.LogProb != tok.LogProb {
					t.Errorf("token %d: %+v", i, tok)
				}
			}
			if sum > 1+1e-6 {
				t.Errorf("token %d: probabilities sum to %v", i, sum)
			}
		}
	}
}

// Without Sampling the checkpoint's recommendation holds, with one only that.
func TestGenerationDefaults(t *testing.T) {
	f := func(x float64) float32 { return float32(x) }
	for _, c := range []struct {
		fields map[string]any
		want   Sampling
	}{
		{nil, Sampling{}},
		{map[string]any{"do_sample": true}, Sampling{Temperature: 1}},
		{map[string]any{"do_sample": false, "temperature": 0.6, "top_p": 0.9}, Sampling{}},
		{map[string]any{"temperature": 0.6}, Sampling{Temperature: f(0.6)}},
		{map[string]any{"temperature": 1.0, "top_p": 0.95}, Sampling{Temperature: 1, TopP: f(0.95)}},
		{map[string]any{"do_sample": true, "top_k": 7, "min_p": 0.25, "repetition_penalty": 1.5}, Sampling{Temperature: 1, TopK: 7, MinP: 0.25, Repetition: 1.5}},
	} {
		m := openFiles(t, withGeneration(t, c.fields), Config{Template: "GLM-5.2"})
		if got := m.defaultSampling(); !sameSampling(*got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.fields, *got, c.want)
		}
		p := openPool(t, m, PoolConfig{Tokens: 320, Context: 320})
		r := Request{Tokens: ids(20), MaxTokens: 30}
		greedy := r
		greedy.Sampling = &Sampling{}
		want := sampled(t, openSession(t, p, ""), greedy)
		if again := sampled(t, openSession(t, p, ""), greedy); !slices.Equal(want, again) {
			t.Errorf("%v: &Sampling{} is not greedy: %v, %v", c.fields, want, again)
		}
		drawn := 0
		for range 4 {
			if !slices.Equal(sampled(t, openSession(t, p, ""), r), want) {
				drawn++
			}
		}
		if (c.want.Temperature > 0) != (drawn > 0) {
			t.Errorf("%v: %d of 4 differ from greedy", c.fields, drawn)
		}
	}
	// A recommendation that leaves one id is greedy.
	m := openFiles(t, withGeneration(t, map[string]any{"do_sample": true, "temperature": 2, "top_k": 1}), Config{})
	p := openPool(t, m, PoolConfig{Tokens: 320, Context: 320})
	r := Request{Tokens: ids(20), MaxTokens: 30}
	got := sampled(t, openSession(t, p, ""), r)
	r.Sampling = &Sampling{}
	if want := sampled(t, openSession(t, p, ""), r); !slices.Equal(got, want) {
		t.Errorf("top_k 1: %v, greedy %v", got, want)
	}
}

func sameSampling(a, b Sampling) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// MaxTokens is exact, whoever says it.
func TestMaxTokens(t *testing.T) {
	m := openFixture(t, "")
	for _, c := range []struct{ pool, request, want int }{
		{0, 1, 1}, {0, 2, 2}, {0, 33, 33}, {7, 0, 7}, {7, 9, 9}, {0, 0, 320 / 4},
	} {
		p := openPool(t, m, PoolConfig{Tokens: 320, Context: 320, MaxTokens: c.pool})
		s := openSession(t, p, "")
		reply, err := Collect(s.Generate(t.Context(), Request{Tokens: ids(5), MaxTokens: c.request, Sampling: quiet()}))
		if err != nil {
			t.Fatal(err)
		}
		if len(reply.Tokens) != c.want || reply.Reason != FinishLength || reply.Usage != (Usage{Prompt: 5, Output: c.want}) || s.Usage() != reply.Usage {
			t.Errorf("%+v: %d ids, %s, %+v", c, len(reply.Tokens), reply.Reason, reply.Usage)
		}
	}
	// Clamp gives what the context leaves, and says that this was the reason.
	p := openPool(t, m, PoolConfig{Tokens: 96, Context: 96, Admission: Clamp, MaxTokens: 50})
	for _, c := range []struct {
		prompt, request, want int
		reason                FinishReason
	}{
		{5, 91, 91, FinishLength}, {5, 92, 91, FinishContext}, {5, math.MaxInt, 91, FinishContext}, {95, 2, 1, FinishContext},
		{40, 0, 50, FinishLength}, {50, 0, 46, FinishContext}, {90, 6, 6, FinishLength},
	} {
		reply, err := Collect(p.Generate(t.Context(), "", Request{Tokens: ids(c.prompt), MaxTokens: c.request, Sampling: quiet()}))
		if err != nil || len(reply.Tokens) != c.want || reply.Reason != c.reason {
			t.Errorf("clamp, %+v: %d ids, %s, %v", c, len(reply.Tokens), reply.Reason, err)
		}
	}
	if p := openPool(t, m, PoolConfig{Tokens: fixtureContext}); p.maxTokens != fixtureContext/4 {
		t.Errorf("default of %d tokens", p.maxTokens)
	}
}

// Reasoning is counted from inside the tags, and output is all that was sampled.
func TestReasoningUsage(t *testing.T) {
	for _, c := range []struct {
		template, said string
		effort         Effort
		reasoning      int
		reason         FinishReason
	}{
		{"GLM-5.2", "abc</think>d<|user|>", "", 4, FinishStop},
		{"GLM-5.2", "</think>d<|user|>", "", 1, FinishStop},
		{"GLM-5.2", "abc", "", 3, FinishLength},
		{"GLM-5.2", "d<|user|>", EffortNone, 0, FinishStop},
		{"GLM-4.5", "\n<think>abc</think>\nd<|user|>", "", 4, FinishStop},
		{"GLM-4.5", "\nd<|user|>", "", 0, FinishStop},
		{"GLM-4.5", "\nd<|user|>", EffortNone, 0, FinishStop},
		{"GLM-5.2", "a</think><|endoftext|>", "", 2, FinishStop},
	} {
		m := openFixture(t, c.template)
		hands := animate(m)
		s := openSession(t, openPool(t, m, PoolConfig{Tokens: 320, Context: 320}), "")
		said := speech(m, c.said)
		hands.say(said...)
		reply, err := Collect(s.Generate(t.Context(), Request{Messages: []Message{user("x")}, Effort: c.effort, MaxTokens: len(said)}))
		if err != nil {
			t.Fatal(err)
		}
		if reply.Usage.Reasoning != c.reasoning || reply.Usage.Output != len(said) || reply.Reason != c.reason {
			t.Errorf("%s %q: %+v, %s; want %d ids of reasoning", c.template, c.said, reply.Usage, reply.Reason, c.reasoning)
		}
	}
}
