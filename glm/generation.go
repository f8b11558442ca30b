package glm

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/kvcache"
	"github.com/cofferdam-ml/cofferdam/tokenizer/reply"
)

// generation is one admitted request. The scheduler appends sampled ids, the
// consumer takes events away; neither waits for the other.
type generation struct {
	session *Session
	lease   *kvcache.Lease
	prompt  *prompt
	stops   []int32 // ids that end the reply
	report  bool    // Token events
	asked   int     // ids that the request wants

	// The scheduler's own, between steps.
	ids      []int32          // prompt and output: what must be fed before the next id
	sampling backend.Sampling // with U drawn for the next id
	random   *rand.Rand
	counts   map[int32]int // index into sampling.Counts, nil without penalties
	served   int           // turn in which it was last decoded, 0: never

	mu      sync.Mutex
	parser  *reply.Parser // nil without a tokenizer
	stopper stopper
	events  []Event
	ready   chan struct{} // holds one signal: there are events, or the end
	ended   bool
	cause   kvcache.Cause
	err     error
	output  []int32 // sampled ids
	usage   Usage
	message replyMessage
}

// replyMessage collects what the reply says.
type replyMessage struct {
	reasoning, text strings.Builder
	calls           []Call
	bad             bool // some call could not be read
	cut             bool // a stop string left ids unsaid
}

func newGeneration(s *Session, r *Request, p *prompt, lease *kvcache.Lease) (*generation, error) {
	m := s.pool.model
	g := &generation{
		session: s, lease: lease, prompt: p, stops: m.config.EOS, asked: cmp.Or(r.MaxTokens, s.pool.maxTokens),
		ids:   slices.Clone(p.ids),
		ready: make(chan struct{}, 1), stopper: stopper{stops: r.Stop},
		random: s.random,
		usage:  Usage{Prompt: len(p.ids), Cached: lease.Reused()},
	}
	sampling := r.Sampling
	if sampling == nil {
		sampling = m.defaultSampling()
	}
	g.sampling = sampling.device()
	g.report = len(r.Tokens) > 0 || sampling.LogProbs
	if sampling.Seed != 0 {
		g.random = rand.New(rand.NewPCG(sampling.Seed, 0))
	}
	if sampling.penalises() {
		g.counts = map[int32]int{}
		for _, id := range p.ids {
			g.count(id, 0)
		}
	}
	g.draw()
	if m.tokens != nil {
		var err error
		if g.parser, err = reply.New(m.tokens, p.tools, p.given()); err != nil {
			if len(r.Messages) > 0 {
				return nil, err
			}
			g.parser = nil // ids of a vocabulary that is not GLM's
		}
	}
	if g.parser != nil && p.forced > 0 {
		g.read(p.ids[len(p.ids)-p.forced:]...)
	}
	return g, nil
}

// defaultSampling is what generation_config.json recommends.
func (m *Model) defaultSampling() *Sampling {
	s, c := &Sampling{}, &m.config.Generation
	if c.DoSample != nil && !*c.DoSample {
		return s
	}
	if c.Temperature != nil {
		s.Temperature = float32(*c.Temperature)
	} else if c.DoSample != nil {
		s.Temperature = 1
	}
	if c.TopP != nil {
		s.TopP = float32(*c.TopP)
	}
	if c.TopK != nil {
		s.TopK = *c.TopK
	}
	if c.MinP != nil {
		s.MinP = float32(*c.MinP)
	}
	if c.RepetitionPenalty != nil {
		s.Repetition = float32(*c.RepetitionPenalty)
	}
	return s
}

// draw prepares the random number of the next id. It is used once, whether the
// id takes one step or, requeued, several.
func (g *generation) draw() {
	if g.sampling.Temperature > 0 {
		g.sampling.U = g.random.Float64()
	}
}

func (g *generation) count(id int32, n int32) {
	if g.counts == nil {
		return
	}
	i, ok := g.counts[id]
	if !ok {
		i = len(g.sampling.Counts)
		g.counts[id] = i
		g.sampling.Counts = append(g.sampling.Counts, backend.TokenCount{ID: id})
	}
	g.sampling.Counts[i].Count += n
}

// accept takes a sampled id: called by the scheduler once the step is complete.
func (g *generation) accept(id int32, logProb float32, top []backend.TokenProb) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return // its session may already draw for another
	}
	g.ids = append(g.ids, id)
	g.count(id, 1)
	g.draw()
	g.output = append(g.output, id)
	g.usage.Output++
	if g.parser != nil && g.parser.InReasoning() {
		g.usage.Reasoning++
	}
	if g.report {
		t := Token{ID: id, LogProb: logProb}
		for _, p := range top {
			t.Top = append(t.Top, TokenProb(p))
		}
		g.push(t)
	}
	stopped := g.parser != nil && g.read(id)
	g.message.cut = stopped
	switch {
	case slices.Contains(g.stops, id):
		g.close()
		if len(g.message.calls) > 0 || g.message.bad {
			g.settle(kvcache.CauseToolCalls, nil)
		} else {
			g.settle(kvcache.CauseStop, nil)
		}
	case stopped:
		g.settle(kvcache.CauseStop, nil)
	case len(g.output) >= g.lease.MaxTokens():
		g.close()
		if len(g.output) < g.asked { // Clamp cut it to what the context leaves
			g.settle(kvcache.CauseContext, nil)
		} else {
			g.settle(kvcache.CauseLength, nil)
		}
	}
}

// read parses ids and pushes what they say. It reports whether a stop string
// was met.
func (g *generation) read(ids ...int32) (stopped bool) {
	for _, ev := range g.parser.Append(nil, ids...) {
		if g.say(ev) {
			return true
		}
	}
	return false
}

// close says what the parser and the stopper still hold.
func (g *generation) close() {
	if g.parser == nil {
		return
	}
	for _, ev := range g.parser.Finish(nil) {
		if g.say(ev) {
			g.message.cut = true
			return
		}
	}
	g.text(g.stopper.flush())
}

func (g *generation) say(ev reply.Event) (stopped bool) {
	switch ev := ev.(type) {
	case reply.ReasoningDelta:
		g.message.reasoning.WriteString(ev.Text)
		g.push(ReasoningDelta(ev))
	case reply.TextDelta:
		out, stopped := g.stopper.push(ev.Text)
		g.text(out)
		return stopped
	case reply.ToolCallDelta:
		g.push(ToolCallDelta(ev))
	case reply.ToolCall:
		call := Call{ID: callID(), Name: ev.Name, Arguments: ev.Arguments}
		g.message.calls = append(g.message.calls, call)
		g.push(ToolCall{Index: ev.Index, ID: call.ID, Name: ev.Name, Arguments: ev.Arguments})
	case reply.BadToolCall:
		g.message.bad = true
		g.push(BadToolCall{Index: ev.Index, Name: ev.Name, Raw: ev.Raw, Err: ev.Err})
	}
	return false
}

func (g *generation) text(s string) {
	if s != "" {
		g.message.text.WriteString(s)
		g.push(TextDelta{s})
	}
}

// push appends an event, joining it to the one before where both are text that
// nobody has taken yet.
func (g *generation) push(ev Event) {
	if n := len(g.events) - 1; n >= 0 {
		switch last := g.events[n].(type) {
		case TextDelta:
			if next, ok := ev.(TextDelta); ok {
				g.events[n] = TextDelta{last.Text + next.Text}
				return
			}
		case ReasoningDelta:
			if next, ok := ev.(ReasoningDelta); ok {
				g.events[n] = ReasoningDelta{last.Text + next.Text}
				return
			}
		}
	}
	g.events = append(g.events, ev)
	g.signal()
}

func (g *generation) signal() {
	select {
	case g.ready <- struct{}{}:
	default:
	}
}

// finish gives the generation its end, if it has none: the first cause wins.
func (g *generation) finish(cause kvcache.Cause, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.close()
		g.settle(cause, err)
	}
}

// settle ends the generation; g.mu is held.
func (g *generation) settle(cause kvcache.Cause, err error) {
	g.cause, g.err = g.lease.End(cause, err)
	g.ended = true
	g.events = append(g.events, Finish{Reason: g.reason(), Usage: g.usage, Message: g.build()})
	g.signal()
	g.session.pool.sched.left(g)
}

func (g *generation) reason() FinishReason {
	switch g.cause {
	case kvcache.CauseStop:
		return FinishStop
	case kvcache.CauseLength:
		return FinishLength
	case kvcache.CauseContext:
		return FinishContext
	case kvcache.CauseToolCalls:
		return FinishToolCalls
	case kvcache.CauseCancelled:
		return FinishCancelled
	}
	return FinishFailed
}

// build returns the reply as a message. It carries the sampled ids, so that the
// next turn feeds exactly these, unless a stop string cut the text short.
func (g *generation) build() Message {
	m := Message{
		Role: Assistant, Reasoning: g.message.reasoning.String(), Content: g.message.text.String(),
		ToolCalls: g.message.calls,
	}
	if g.prompt.chat == nil || g.message.cut {
		return m
	}
	ids := slices.Concat(g.prompt.ids[len(g.prompt.ids)-g.prompt.forced:], g.output)
	return g.prompt.chat.Reply(m, ids)
}

// over returns whether the generation has ended.
func (g *generation) over() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// counted returns the usage so far.
func (g *generation) counted() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.usage
}

// stream hands events to the consumer until the end, or until it leaves.
func (g *generation) stream(ctx context.Context, yield func(Event, error) bool) {
	// Whatever way this is left, the generation is over.
	defer g.finish(kvcache.CauseCancelled, context.Canceled)
	// And when ctx ends, even while the consumer is busy with an event.
	defer context.AfterFunc(ctx, func() { g.finish(kvcache.CauseCancelled, cancelled(ctx)) })()
	for {
		if ctx.Err() != nil {
			g.finish(kvcache.CauseCancelled, cancelled(ctx))
		}
		g.mu.Lock()
		events, ended, err := g.events, g.ended, g.err
		g.events = nil
		g.mu.Unlock()
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if ended {
			if err != nil {
				yield(nil, err)
			}
			return
		}
		<-g.ready
	}
}

// callID mints the id of a tool call.
func callID() string {
	var b [12]byte
	cryptorand.Read(b[:]) // never fails
	return "call_" + hex.EncodeToString(b[:])
}
