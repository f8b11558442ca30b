package agent

import (
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/eval/noise"
	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// The fixture is a GLM-5.3 in small that was never trained. Its vocabulary is the
// 256 bytes and GLM's added tokens.
const (
	fixtureFirst   = 256 // id of the first added token
	fixtureContext = 4096
)

const fixtureConfig = `{"model_type":"glm_moe_dsa","num_hidden_layers":2,"hidden_size":32,"vocab_size":320,
	"intermediate_size":32,"moe_intermediate_size":16,"num_attention_heads":2,"num_key_value_heads":2,
	"q_lora_rank":16,"kv_lora_rank":16,"qk_nope_head_dim":8,"qk_rope_head_dim":8,"v_head_dim":8,
	"n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":1,"n_group":1,"topk_group":1,
	"scoring_func":"sigmoid","topk_method":"noaux_tc","norm_topk_prob":true,"routed_scaling_factor":2.5,
	"first_k_dense_replace":1,"rms_norm_eps":1e-5,"rope_parameters":{"rope_theta":1e6,"rope_type":"default"},
	"rope_interleave":true,"index_n_heads":2,"index_head_dim":16,"index_topk":32,
	"indexer_types":["full","shared"],"indexer_rope_interleave":true,"num_nextn_predict_layers":0,
	"max_position_embeddings":4096,"hidden_act":"silu","attention_bias":false,"tie_word_embeddings":false}`

func fixtureTokenizer() []byte {
	vocab := map[string]int{}
	other := rune(0x100)
	for b := range 256 { // printable Latin-1 stands for itself, the rest is counted from U+0100
		r := rune(b)
		if b < '!' || b > '~' && b < 0xA1 || b == 0xAD {
			r, other = other, other+1
		}
		vocab[string(r)] = b
	}
	var added []map[string]any
	for _, a := range tokenizer.GLMAdded(fixtureFirst) {
		added = append(added, map[string]any{"id": a.ID, "content": a.Content, "special": a.Special})
	}
	const split = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	data, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": added,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": split}, "behavior": "Isolated", "invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}},
		"decoder": map[string]any{"type": "ByteLevel"},
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		panic(err)
	}
	return data
}

var fixtureFS = sync.OnceValues(func() (fs.FS, error) {
	return noise.FS(fstest.MapFS{
		"config.json":            {Data: []byte(fixtureConfig)},
		"tokenizer.json":         {Data: fixtureTokenizer()},
		"generation_config.json": {Data: []byte(`{"eos_token_id":[256,263,265]}`)},
	}, 1)
})

// openFixture opens the model and a pool; both are closed when the test ends.
func openFixture(t testing.TB, c glm.PoolConfig) (*glm.Model, *glm.KVPool) {
	t.Helper()
	files, err := fixtureFS()
	if err != nil {
		t.Fatal(err)
	}
	m, err := glm.OpenFS(t.Context(), files, glm.Config{Template: "GLM-5.3", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if c.Tokens == 0 {
		c.Tokens, c.Context = fixtureContext, fixtureContext
	}
	pool, err := m.NewKVPool(c)
	if err != nil {
		t.Fatal(err)
	}
	return m, pool
}

// ids encodes text in which the names of control tokens stand for them.
func ids(m *glm.Model, text string) []int32 { return m.Tokenizer().EncodeWithAdded(nil, text) }

// A script replaces the session: each reply is the next of its ids, or else of its
// texts, sampled id by id. It remembers the prompts.
type script struct {
	model   *glm.Model
	replies []string
	sampled [][]int32
	prompts [][]int32
}

func (s *script) next() (said []int32, ok bool) {
	switch {
	case len(s.sampled) > 0:
		said, s.sampled = s.sampled[0], s.sampled[1:]
	case len(s.replies) > 0:
		said, s.replies = ids(s.model, s.replies[0]), s.replies[1:]
	default:
		return nil, false
	}
	return said, true
}

func (s *script) generate(ctx context.Context, r glm.Request) iter.Seq2[glm.Event, error] {
	return func(yield func(glm.Event, error) bool) {
		s.prompts = append(s.prompts, r.Tokens)
		said, ok := s.next()
		if !ok {
			yield(nil, errScriptEnded)
			return
		}
		reason := glm.FinishToolCalls
		for i, id := range said {
			if i == r.MaxTokens {
				reason = glm.FinishLength
				said = said[:i]
				break
			}
			if !yield(glm.Token{ID: id}, nil) {
				return
			}
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
		}
		yield(glm.Finish{Reason: reason, Usage: glm.Usage{Prompt: len(r.Tokens), Output: len(said)}}, nil)
	}
}

type scriptError string

func (e scriptError) Error() string { return string(e) }

const errScriptEnded = scriptError("the script is at its end")

// scripted returns an agent that says what it is told.
func scripted(t testing.TB, c Config, replies ...string) (*Agent, *script) {
	t.Helper()
	m, pool := openFixture(t, glm.PoolConfig{})
	a, err := New(m, pool, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	s := &script{model: m, replies: replies}
	a.generate = s.generate
	return a, s
}

// A call in the wire format: name, then keys and values.
func wire(name string, arguments ...string) string {
	var b strings.Builder
	b.WriteString("<tool_call>" + name)
	for i := 0; i < len(arguments); i += 2 {
		b.WriteString("<arg_key>" + arguments[i] + "</arg_key><arg_value>" + arguments[i+1] + "</arg_value>")
	}
	return b.String() + "</tool_call>"
}

// asks is a reply that calls tools.
func asks(calls ...string) string {
	return "I think.</think>" + strings.Join(calls, "") + "<|observation|>"
}

// says is a reply that answers.
func says(text string) string { return "I know.</think>" + text + "<|user|>" }

// collect reads a run to its end.
func collect(stream iter.Seq2[Event, error]) (events []Event, err error) {
	for ev, e := range stream {
		if e != nil {
			err = e
			continue
		}
		events = append(events, ev)
	}
	return events, err
}

// of returns the events of one type.
func of[E Event](events []Event) (list []E) {
	for _, ev := range events {
		if e, ok := ev.(E); ok {
			list = append(list, e)
		}
	}
	return list
}
