package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// loadBytes returns the smallest tokenizer: the 256 bytes, and the added tokens of
// GLM with the ids that they have in GLM-5.
func loadBytes(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := ParseRanks(byteRanks(), GLMAdded(154_820))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func byteRanks() []byte {
	var b []byte
	for i := range 256 {
		b = fmt.Appendf(b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	return b
}

// A file is a tokenizer.json in the making. It starts as the smallest valid one.
type file struct {
	root  map[string]any
	vocab map[string]int
}

func newFile() *file {
	f := &file{vocab: map[string]int{}}
	for i := range 256 {
		f.vocab[byteLevel(string([]byte{byte(i)}))] = i
	}
	text := fmt.Sprintf(`{
		"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
		"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
			{"type": "Split", "pattern": {"Regex": %s}, "behavior": "Isolated", "invert": false},
			{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
		"post_processor": null,
		"decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
			"end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "merges": []}
	}`, quoted(splitPattern))
	if err := json.Unmarshal([]byte(text), &f.root); err != nil {
		panic(err)
	}
	f.set("model.vocab", f.vocab)
	return f
}

// set puts a value at a path of keys.
func (f *file) set(path string, value any) {
	keys := strings.Split(path, ".")
	m := f.root
	for _, key := range keys[:len(keys)-1] {
		m = m[key].(map[string]any)
	}
	m[keys[len(keys)-1]] = value
}

// token adds a token, given as bytes, under the next id.
func (f *file) token(s string) { f.vocab[byteLevel(s)] = len(f.vocab) }

func (f *file) merges(list ...any) { f.set("model.merges", list) }

func (f *file) added(list ...map[string]any) { f.set("added_tokens", list) }

func added(id int, content string) map[string]any {
	return map[string]any{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
		"normalized": false, "special": true}
}

func (f *file) json() []byte {
	data, err := json.Marshal(f.root)
	if err != nil {
		panic(err)
	}
	return data
}

// byteLevel writes bytes in the byte-level alphabet.
func byteLevel(s string) string {
	var b strings.Builder
	for i := range len(s) {
		for r, c := range byteOf {
			if c == int16(s[i]) {
				b.WriteRune(rune(r))
			}
		}
	}
	return b.String()
}

func quoted(s string) string {
	q, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(q)
}
