package glm

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/eval/noise"
	"github.com/cofferdam-ml/cofferdam/tokenizer"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
)

// The fixture is a GLM-5.2 in small with random weights and a vocabulary that
// has all control tokens: what it says is noise, how it is run is not.
const (
	fixtureVocab   = 512 // more than there are tokens, as in the released models
	fixtureContext = 4096
)

var fixtureConfig = map[string]any{
	"model_type": "glm_moe_dsa", "num_hidden_layers": 3, "hidden_size": 48, "vocab_size": fixtureVocab,
	"intermediate_size": 40, "moe_intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 2,
	"q_lora_rank": 24, "kv_lora_rank": 32, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 12,
	"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
	"scoring_func": "sigmoid", "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 2.5,
	"first_k_dense_replace": 1, "rms_norm_eps": 1e-5, "rope_parameters": map[string]any{"rope_theta": 8e6, "rope_type": "default"},
	"rope_interleave": true, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 24,
	"indexer_types": []string{"full", "shared", "full"}, "indexer_rope_interleave": true,
	"num_nextn_predict_layers": 0, "max_position_embeddings": fixtureContext, "hidden_act": "silu",
	"attention_bias": false, "tie_word_embeddings": false,
}

// fixtureMerges are the tokens of more than a byte, each made of two before it.
var fixtureMerges = [][2]string{
	{"t", "h"}, {"th", "e"}, {" ", "the"}, {"i", "n"}, {"e", "r"}, {"a", "n"}, {"r", "e"}, {"o", "n"}, {"l", "l"}, {"e", "s"},
	{" ", "a"}, {" ", "t"}, {"a", "d"}, {"re", "ad"}, {"l", "i"}, {"li", "n"}, {"lin", "e"}, {"an", "d"}, {" ", "and"},
	{"\n", "\n"}, {"o", "k"}, {"w", "r"}, {"i", "te"}, {"t", "e"}, {"in", "g"}, {"f", "i"}, {"fi", "le"}, {"l", "e"},
}

// fixtureFiles returns the files of the fixture; the caller may change the map.
func fixtureFiles() fstest.MapFS { return maps.Clone(fixtureOnce()) }

var fixtureOnce = sync.OnceValue(func() fstest.MapFS {
	config, tokens := encode(fixtureConfig), fixtureTokenizer()
	c, err := checkpoint.ParseConfig(config)
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.Parse(tokens)
	if err != nil {
		panic(err)
	}
	var stops []int32
	for _, s := range []string{"<|endoftext|>", "<|user|>", "<|observation|>"} {
		id, _ := tok.ID(s)
		stops = append(stops, id)
	}
	weights, err := noise.Weights(c, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		panic(err)
	}
	files := fstest.MapFS{}
	for name, data := range map[string][]byte{
		"config.json": config, "tokenizer.json": tokens, "model.safetensors": weights,
		"generation_config.json": encode(map[string]any{"eos_token_id": stops}),
	} {
		files[name] = &fstest.MapFile{Data: data, Mode: 0o600}
	}
	return files
})

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// fixtureTokenizer writes a tokenizer.json: 256 bytes, the merges, and the added
// tokens of GLM.
func fixtureTokenizer() []byte {
	vocab := map[string]int{}
	for b := range 256 {
		vocab[alphabet(string([]byte{byte(b)}))] = b
	}
	var merges [][2]string
	for _, m := range fixtureMerges {
		whole := alphabet(m[0] + m[1])
		if _, ok := vocab[whole]; !ok {
			vocab[whole] = len(vocab)
			merges = append(merges, [2]string{alphabet(m[0]), alphabet(m[1])})
		}
	}
	var added []map[string]any
	for _, a := range tokenizer.GLMAdded(int32(len(vocab))) {
		added = append(added, map[string]any{"id": a.ID, "content": a.Content, "special": a.Special})
	}
	const pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	return encode(map[string]any{
		"version": "1.0", "added_tokens": added,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}},
		"decoder": map[string]any{"type": "ByteLevel"},
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": merges},
	})
}

// alphabet writes bytes as byte-level vocabularies do: printable Latin-1 stands
// for itself, the others in order for what comes from U+0100 on.
func alphabet(s string) string {
	var out strings.Builder
	for i := range len(s) {
		b, other := rune(s[i]), rune(0)
		for c := range b + 1 {
			if c < '!' || c > '~' && c < '¡' || c == '\u00ad' {
				if c == b {
					b = 0x100 + other
					break
				}
				other++
			}
		}
		out.WriteRune(b)
	}
	return out.String()
}

// fixtureDir writes the fixture into a directory.
func fixtureDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, file := range fixtureFiles() {
		if err := os.WriteFile(filepath.Join(dir, name), file.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// openFixture opens the fixture with a template ("": GLM-5.2's); it is closed
// when the test ends.
func openFixture(t testing.TB, template string) *Model {
	t.Helper()
	if template == "" {
		template = "GLM-5.2"
	}
	return openFiles(t, fixtureFiles(), Config{Template: template, Threads: 2})
}

func openFiles(t testing.TB, files fs.FS, c Config) *Model {
	t.Helper()
	m, err := OpenFS(t.Context(), files, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// openPool opens a pool. When the test ends the pool must be at rest with all
// invariants holding, and is closed.
func openPool(t testing.TB, m *Model, c PoolConfig) *KVPool {
	t.Helper()
	p, err := m.NewKVPool(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s := atRest(p); s.Running+s.Waiting+s.Writable+s.Shared+s.Reserved+s.Integrity != 0 {
			t.Errorf("at the end the pool holds %+v", s)
		}
		if err := p.cache.Check(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func openSession(t testing.TB, p *KVPool, tenant string) *Session {
	t.Helper()
	s, err := p.NewSession(SessionConfig{Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// atRest waits until nothing is on its way back to the pool: a stream may end
// while the step that computed for it still runs.
func atRest(p *KVPool) PoolStats {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if s := p.Stats(); s.Running+s.Quarantined+s.Dirty == 0 || time.Now().After(end) {
			return s
		}
	}
}

// A puppet computes like the backend it wraps and says what it is told: the ids
// of out rows are replaced, one after the other, as long as there are any left.
// The rows of KV that follow are computed from the ids that it said.
type puppet struct {
	backend.Backend
	turn  sync.Mutex // whoever holds it holds every step back
	mu    sync.Mutex
	lines []int32
	rows  int                         // fed so far
	twist func(*backend.Result) error // may spoil a result
}

// animate makes a model say what a test wants, in one generation at a time.
func animate(m *Model) *puppet {
	p := &puppet{Backend: m.device}
	m.device = p
	return p
}

// say sets what is said next.
func (p *puppet) say(ids ...int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = ids
}

// fed returns how many rows were computed.
func (p *puppet) fed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows
}

// silent reports whether everything was said.
func (p *puppet) silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines) == 0
}

// spoil sets what is done to results, nil for nothing.
func (p *puppet) spoil(twist func(*backend.Result) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.twist = twist
}

func (p *puppet) Start(program backend.Program, s *backend.Step, pages backend.Pages) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	p.rows += s.Rows()
	p.mu.Unlock()
	return p.Backend.Start(program, s, pages)
}

func (p *puppet) Wait() (*backend.Result, error) {
	r, err := p.Backend.Wait()
	if err != nil || r.Aborted {
		return r, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range r.ID {
		if len(p.lines) > 0 {
			r.ID[i], p.lines = p.lines[0], p.lines[1:]
		}
	}
	if p.twist != nil {
		err = p.twist(r)
	}
	return r, err
}

// speech turns text with control tokens into ids that no encoder would choose:
// text is spelled byte by byte.
func speech(m *Model, text string) []int32 {
	var ids []int32
	for text != "" {
		best := ""
		for _, a := range m.tokens.Added() {
			if strings.HasPrefix(text, a.Content) && len(a.Content) > len(best) {
				best = a.Content
			}
		}
		if best != "" {
			id, _ := m.tokens.ID(best)
			ids, text = append(ids, id), text[len(best):]
			continue
		}
		ids, text = append(ids, int32(text[0])), text[1:]
	}
	return ids
}

func user(text string) Message { return Message{Role: User, Content: text} }

// readTool is a tool with parameters of several kinds.
var readTool = Tool{
	Name: "read", Description: "Read lines of a file.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"note":{"type":"string"},"lines":{"type":"integer"}},"required":["path"]}`),
}

// eachTemplate runs a test for every template; in short mode for one of those
// that print alike.
func eachTemplate(t *testing.T, f func(t *testing.T, m *Model)) {
	for _, name := range chat.Names() {
		if testing.Short() && slices.Contains([]string{"GLM-4.6", "GLM-4.7-Flash", "GLM-5", "GLM-5.3-Flash"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { f(t, openFixture(t, name)) })
	}
}

func TestFixture(t *testing.T) {
	start := time.Now()
	fixtureFiles()
	made := time.Now()
	fromFS := openFixture(t, "")
	t.Logf("made in %v, opened in %v", made.Sub(start), time.Since(made))
	fromDir, err := Open(t.Context(), fixtureDir(t), Config{Template: "GLM-5.2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fromDir.Close() })
	var texts []string
	for _, m := range []*Model{fromFS, fromDir} {
		if m.Tokenizer().Size() >= fixtureVocab || m.Template() != "GLM-5.2" {
			t.Errorf("%d tokens, template %q", m.Tokenizer().Size(), m.Template())
		}
		r, err := Collect(openPool(t, m, PoolConfig{Tokens: 512, AllowSmallerPool: true}).Generate(t.Context(), "", Request{Messages: []Message{user("Hello")}, MaxTokens: 16}))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprintf("%q %q %v", r.Reasoning, r.Text, r.Usage))
	}
	if texts[0] != texts[1] {
		t.Errorf("from memory %s, from files %s", texts[0], texts[1])
	}
	if got := speech(fromFS, "a<think>\n"); len(got) != 3 || fromFS.tokens.Decode(got) != "a<think>\n" {
		t.Errorf("speech is %v", got)
	}
	if got := fromFS.tokens.Encode(nil, " the reading"); len(got) != 4 { // " the", " ", "read", "ing"
		t.Errorf("merges are not used: %v", got)
	}
}
