package glm

import (
	"fmt"
	"math"
	"slices"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// Request is what to generate from: exactly one of Messages and Tokens.
type Request struct {
	Messages []Message
	Tools    []Tool
	Tokens   []int32 // a prompt of ids, fed as they are

	// MaxTokens bounds the sampled ids; 0: the pool's default.
	MaxTokens int
	// Sampling nil follows the checkpoint's generation_config.json, and is
	// greedy if that says nothing; &Sampling{} is greedy.
	Sampling   *Sampling
	Effort     Effort
	ToolChoice ToolChoice
	// Stop strings end the answer before them: at most 16, of at most 1024 bytes.
	// They are looked for in the text of the answer, not in reasoning or tool
	// calls.
	Stop []string
}

// Sampling says how ids are drawn. The zero value is greedy.
//
// Penalties and bias change the logits first; the TopK largest are kept; of
// these, renormalised, the shortest run whose sum reaches TopP; of these the
// ones at least MinP times as likely as the first.
type Sampling struct {
	Temperature float32 // 0: the most likely id, the lowest among equals
	TopK        int     // 0: all
	TopP        float32 // 0 or 1: all
	MinP        float32 // 0: all
	Seed        uint64  // 0: one that is drawn for the session

	// Repetition divides positive and multiplies negative logits of ids in the
	// prompt or the output; 0 or 1: none, else 0.01 to 100. Presence and Frequency are subtracted
	// for ids in the output, once and per occurrence.
	Repetition, Presence, Frequency float32
	LogitBias                       map[int32]float32

	LogProbs    bool // report a Token event for every sampled id
	TopLogProbs int  // how many alternatives each carries, at most 20
}

const (
	// maxTopLogProbs bounds what one Token carries.
	maxTopLogProbs = 20
	// maxStops and maxStop bound the search after every id, for which the
	// batch waits.
	maxStops, maxStop = 16, 1024
)

func (s *Sampling) check(vocab, valid int) error {
	for _, f := range []struct {
		name     string
		value    float32
		low, top float64
	}{
		{"Temperature", s.Temperature, 0, 100},
		{"TopP", s.TopP, 0, 1},
		{"MinP", s.MinP, 0, 1},
		{"Repetition", s.Repetition, 0, 100},
		{"Presence", s.Presence, -100, 100},
		{"Frequency", s.Frequency, -100, 100},
	} {
		if v := float64(f.value); !(v >= f.low && v <= f.top) {
			return invalid("Sampling."+f.name, "is %v, want %v to %v", v, f.low, f.top)
		}
	}
	if s.Repetition != 0 && s.Repetition < 0.01 { // quotients would overflow
		return invalid("Sampling.Repetition", "is %v, want 0 or 0.01 to 100", s.Repetition)
	}
	if s.TopK < 0 {
		return invalid("Sampling.TopK", "is %d, want 0 or more", s.TopK)
	}
	if s.TopLogProbs < 0 || s.TopLogProbs > maxTopLogProbs {
		return invalid("Sampling.TopLogProbs", "is %d, want 0 to %d", s.TopLogProbs, maxTopLogProbs)
	}
	banned := 0
	for id, b := range s.LogitBias {
		if id < 0 || int(id) >= vocab {
			return invalid("Sampling.LogitBias", "names id %d, want 0 to %d", id, vocab-1)
		}
		if math.IsNaN(float64(b)) || math.IsInf(float64(b), 1) {
			return invalid("Sampling.LogitBias", "of id %d is %v", id, b)
		}
		if math.IsInf(float64(b), -1) && int(id) < valid {
			banned++
		}
	}
	if banned == valid {
		return invalid("Sampling.LogitBias", "bans all %d ids", banned)
	}
	return nil
}

// device returns the parts of a backend's sampling that stay the same.
func (s *Sampling) device() backend.Sampling {
	d := backend.Sampling{
		Temperature: s.Temperature, TopK: int32(min(s.TopK, math.MaxInt32)), TopP: s.TopP, MinP: s.MinP,
		Repetition: s.Repetition, Presence: s.Presence, Frequency: s.Frequency,
		Top: int32(s.TopLogProbs),
	}
	for id, b := range s.LogitBias {
		d.Bias = append(d.Bias, backend.TokenBias{ID: id, Bias: b})
	}
	slices.SortFunc(d.Bias, func(a, b backend.TokenBias) int { return int(a.ID) - int(b.ID) })
	return d
}

func (s *Sampling) penalises() bool {
	return s.Repetition != 0 && s.Repetition != 1 || s.Presence != 0 || s.Frequency != 0
}

// ToolChoice says whether the model may, must or must not call tools.
type ToolChoice struct {
	Mode ToolMode
	Name string // with ToolNamed: the tool
}

// ToolMode is the kind of a ToolChoice.
type ToolMode uint8

const (
	ToolAuto     ToolMode = iota // the model decides
	ToolNone                     // no tools are shown to the model
	ToolRequired                 // the reply begins with a call of some tool
	ToolNamed                    // the reply begins with a call of the tool Name
)

func (c ToolChoice) check(tools []Tool) error {
	switch c.Mode {
	case ToolAuto, ToolNone:
	case ToolRequired:
		if len(tools) == 0 {
			return invalid("ToolChoice", "requires a call, and there are no tools")
		}
	case ToolNamed:
		if !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == c.Name }) {
			return invalid("ToolChoice.Name", "is not the name of one of the %d tools", len(tools))
		}
	default:
		return invalid("ToolChoice.Mode", "is %d", c.Mode)
	}
	if c.Name != "" && c.Mode != ToolNamed {
		return invalid("ToolChoice.Name", "is set without ToolNamed")
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &RequestError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// check looks at everything that needs no rendering.
func (r *Request) check(vocab, valid int) error {
	switch {
	case len(r.Messages) > 0 && len(r.Tokens) > 0:
		return invalid("Tokens", "is set beside Messages")
	case len(r.Messages) == 0 && len(r.Tokens) == 0:
		return invalid("Messages", "is empty, and so is Tokens")
	case r.MaxTokens < 0:
		return invalid("MaxTokens", "is %d, want 0 or more", r.MaxTokens)
	case len(r.Tokens) > 0 && len(r.Tools) > 0:
		return invalid("Tools", "is set beside Tokens")
	case len(r.Tokens) > 0 && r.Effort != EffortDefault:
		return invalid("Effort", "is set beside Tokens")
	}
	for i, id := range r.Tokens {
		if id < 0 || int(id) >= vocab {
			return invalid(fmt.Sprintf("Tokens[%d]", i), "is %d, want 0 to %d", id, vocab-1)
		}
	}
	if len(r.Stop) > maxStops {
		return invalid("Stop", "holds %d strings, want at most %d", len(r.Stop), maxStops)
	}
	for i, s := range r.Stop {
		if s == "" || len(s) > maxStop {
			return invalid(fmt.Sprintf("Stop[%d]", i), "has %d bytes, want 1 to %d", len(s), maxStop)
		}
	}
	if err := r.ToolChoice.check(r.Tools); err != nil {
		return err
	}
	if r.Sampling != nil {
		return r.Sampling.check(vocab, valid)
	}
	return nil
}
