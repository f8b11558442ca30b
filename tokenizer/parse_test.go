package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParse(t *testing.T) {
	f := newFile()
	for _, token := range []string{"he", "ll", "hell", "hello", " w"} {
		f.token(token)
	}
	f.merges("h e", []string{"l", "l"}, "he ll", []string{"hell", "o"}, "Ġ w")
	f.added(added(261, "<|end|>"), added(300, "<|user|>"))
	tok, err := Parse(f.json())
	if err != nil {
		t.Fatal(err)
	}
	text := "hello world"
	want := []int32{259, 260, 'o', 'r', 'l', 'd'}
	if got := tok.Encode(nil, text); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if id, ok := tok.ID("<|user|>"); !ok || id != 300 {
		t.Errorf("ID of <|user|>: %d, %v", id, ok)
	}
	if id, ok := tok.ID("hello"); ok {
		t.Errorf("hello is no added token, ID gives %d", id)
	}
	if tok.Size() != 301 {
		t.Errorf("size %d, want 301", tok.Size())
	}
	for id, want := range map[int32]string{0: "\x00", 259: "hello", 260: " w", 261: "<|end|>", 262: "", 299: "", 300: "<|user|>", 301: "", -1: ""} {
		got := tok.Bytes(id)
		if string(got) != want || (got == nil) != (want == "") {
			t.Errorf("Bytes(%d) = %q, want %q", id, got, want)
		}
	}
	list := tok.Added()
	if len(list) != 2 || list[1] != (Added{ID: 300, Content: "<|user|>", Special: true}) {
		t.Errorf("Added gives %v", list)
	}
	list[0].ID = 0
	if tok.Added()[0].ID != 261 {
		t.Error("Added gives the Tokenizer's own list away")
	}
}

func TestIgnoreMerges(t *testing.T) {
	// No merge leads to hey, nor to the second token with a line end.
	for _, test := range []struct {
		ignore   any
		hey, end []int32
	}{
		{true, []int32{256, 257}, []int32{258}},
		{false, []int32{'h', 'e', 'y', 257}, []int32{257, '\n'}},
		{"missing", []int32{'h', 'e', 'y', 257}, []int32{257, '\n'}},
	} {
		f := newFile()
		for _, token := range []string{"hey", "!!", "!!\n"} {
			f.token(token)
		}
		f.merges("! !")
		if f.set("model.ignore_merges", test.ignore); test.ignore == "missing" {
			delete(f.root["model"].(map[string]any), "ignore_merges")
		}
		tok, err := Parse(f.json())
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(nil, "hey!!"); !slices.Equal(got, test.hey) {
			t.Errorf("ignore_merges %v: got %v, want %v", test.ignore, got, test.hey)
		}
		if got := tok.Encode(nil, "!!\n"); !slices.Equal(got, test.end) {
			t.Errorf("ignore_merges %v: got %v, want %v", test.ignore, got, test.end)
		}
	}
}

func TestParseRefusesByName(t *testing.T) {
	split := func(f *file) map[string]any {
		return f.root["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0].(map[string]any)
	}
	byteLevel := func(f *file) map[string]any {
		return f.root["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[1].(map[string]any)
	}
	object := func(s string) (v any) {
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			panic(err)
		}
		return v
	}
	for _, test := range []struct {
		change       func(f *file)
		field, value string
	}{
		{func(f *file) { f.set("version", "2.0") }, "version", `"2.0"`},
		{func(f *file) { f.set("normalizer", object(`{"type":"NFC"}`)) }, "normalizer.type", `"NFC"`},
		{func(f *file) { f.set("normalizer", object(`{"type":"Sequence","normalizers":[{"type":"NFKC"}]}`)) }, "normalizer.normalizers[0].type", `"NFKC"`},
		{func(f *file) { f.set("normalizer", object(`{"type":"Prepend","prepend":"x"}`)) }, "normalizer.type", `"Prepend"`},
		{func(f *file) { f.set("model.type", "Unigram") }, "model.type", `"Unigram"`},
		{func(f *file) { f.set("model.type", "WordPiece") }, "model.type", `"WordPiece"`},
		{func(f *file) { delete(f.root["model"].(map[string]any), "type") }, "model.type", `""`},
		{func(f *file) { delete(f.root, "model") }, "model.type", `""`},
		{func(f *file) { f.set("model.dropout", 0.1) }, "model.dropout", "0.1"},
		{func(f *file) { f.set("model.unk_token", "<unk>") }, "model.unk_token", `"<unk>"`},
		{func(f *file) { f.set("model.continuing_subword_prefix", "##") }, "model.continuing_subword_prefix", `"##"`},
		{func(f *file) { f.set("model.end_of_word_suffix", "</w>") }, "model.end_of_word_suffix", `"</w>"`},
		{func(f *file) { f.set("model.byte_fallback", true) }, "model.byte_fallback", "true"},
		{func(f *file) { f.set("pre_tokenizer", nil) }, "pre_tokenizer", "null"},
		{func(f *file) { delete(f.root, "pre_tokenizer") }, "pre_tokenizer", "null"},
		{func(f *file) { f.set("pre_tokenizer", object(`{"type":"Metaspace"}`)) }, "pre_tokenizer", "Metaspace"},
		{func(f *file) { split(f)["type"] = "Digits" }, "pre_tokenizer", "Digits, ByteLevel"},
		{func(f *file) { split(f)["behavior"] = "Removed" }, "pre_tokenizer.pretokenizers[0].behavior", `"Removed"`},
		{func(f *file) { split(f)["invert"] = true }, "pre_tokenizer.pretokenizers[0].invert", "true"},
		{func(f *file) { split(f)["pattern"] = object(`{"Regex":"\\s+"}`) }, "pre_tokenizer.pretokenizers[0].pattern.Regex", `"\\s+"`},
		{func(f *file) { split(f)["pattern"] = object(`{"String":" "}`) }, "pre_tokenizer.pretokenizers[0].pattern.Regex", `""`},
		{func(f *file) { byteLevel(f)["add_prefix_space"] = true }, "pre_tokenizer.pretokenizers[1].add_prefix_space", "true"},
		{func(f *file) { delete(byteLevel(f), "use_regex") }, "pre_tokenizer.pretokenizers[1].use_regex", "true"},
		{func(f *file) { f.set("decoder", nil) }, "decoder", "null"},
		{func(f *file) {
			f.set("decoder", object(`{"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Strip"}]}`))
		}, "decoder", "ByteLevel, Strip"},
		{func(f *file) { a := added(256, "x"); a["lstrip"] = true; f.added(a) }, "added_tokens[0].lstrip", "true"},
		{func(f *file) { a := added(256, "x"); a["rstrip"] = true; f.added(a) }, "added_tokens[0].rstrip", "true"},
		{func(f *file) { a := added(256, "x"); a["single_word"] = true; f.added(a) }, "added_tokens[0].single_word", "true"},
	} {
		f := newFile()
		test.change(f)
		_, err := Parse(f.json())
		var e *UnsupportedError
		if !errors.Is(err, ErrUnsupported) || !errors.As(err, &e) {
			t.Errorf("%s: got %v, want it refused by name", test.field, err)
			continue
		}
		if e.Field != test.field || e.Value != test.value || e.File != "tokenizer.json" {
			t.Errorf("got %+v, want %s refused for being %s", *e, test.field, test.value)
		}
		if !strings.Contains(e.Error(), test.field) || !strings.Contains(e.Error(), test.value) || e.Supported == "" {
			t.Errorf("the message does not say all: %v", e)
		}
	}
}

func TestParseTakesHarmlessSettings(t *testing.T) {
	for _, change := range []func(f *file){
		func(f *file) { f.set("normalizer", map[string]any{"type": "Sequence", "normalizers": []any{}}) },
		func(f *file) { delete(f.root, "normalizer") },
		func(f *file) { f.set("model.continuing_subword_prefix", "") },
		func(f *file) { f.set("model.dropout", 0) },
		func(f *file) {
			f.set("decoder", map[string]any{"type": "Sequence", "decoders": []any{map[string]any{"type": "ByteLevel"}}})
		},
		func(f *file) {
			f.set("post_processor", map[string]any{"type": "ByteLevel", "deep": []any{[]any{1.5e3}}})
		},
		func(f *file) { f.set("truncation", map[string]any{"max_length": 512}) },
		func(f *file) { f.set("unheard_of", "value") },
		func(f *file) {
			f.root["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{f.root["pre_tokenizer"]}}
		},
	} {
		f := newFile()
		change(f)
		if _, err := Parse(f.json()); err != nil {
			t.Error(err)
		}
	}
}

func TestParseFindsMistakes(t *testing.T) {
	for _, test := range []struct {
		name        string
		change      func(f *file)
		field, text string // expected field, and text that the offset points to
	}{
		{"byte missing", func(f *file) { delete(f.vocab, "A") }, "model.vocab", ""},
		{"id twice", func(f *file) { f.vocab["AA"] = 7 }, "model.vocab", `"`},
		{"negative id", func(f *file) { f.vocab["AA"] = -1 }, "model.vocab", `-1`},
		{"huge id", func(f *file) { f.vocab["AA"] = 1 << 30 }, "model.vocab", `"AA"`},
		{"foreign character", func(f *file) { f.token("x"); f.vocab["世"] = 256 }, "model.vocab", `"世"`},
		{"empty token", func(f *file) { f.vocab[""] = 256 }, "model.vocab", `""`},
		{"long token", func(f *file) { f.vocab[strings.Repeat("a", maxTokenBytes+1)] = 256 }, "model.vocab", `"aaa`},
		{"no vocabulary", func(f *file) { delete(f.root["model"].(map[string]any), "vocab") }, "model.vocab", ""},
		{"no merges", func(f *file) { delete(f.root["model"].(map[string]any), "merges") }, "model.merges", ""},
		{"unknown merge", func(f *file) { f.token("ab"); f.merges("a b", "a c") }, "model.merges[1]", `"a c"`},
		{"merge of three", func(f *file) { f.merges("a b c") }, "model.merges", `"a b c"`},
		{"merge of one", func(f *file) { f.merges([]string{"a"}) }, "model.merges", `["a"]`},
		{"merge of nothing", func(f *file) { f.merges([]string{"", "a"}) }, "model.merges[0]", `["","a"]`},
		{"foreign merge", func(f *file) { f.merges("世 a") }, "model.merges", `"世 a"`},
		{"merge twice", func(f *file) { f.token("ab"); f.merges("a b", "a b") }, "model.merges[1]", `"a b"`},
		{"merge of a number", func(f *file) { f.merges(7) }, "model.merges", `7`},
		{"added id taken", func(f *file) { f.added(added(65, "<x>")) }, "model.vocab", `"`},
		{"added twice", func(f *file) { f.added(added(256, "<x>"), added(257, "<x>")) }, "added_tokens[1]", `{`},
		{"added id twice", func(f *file) { f.added(added(256, "<x>"), added(256, "<y>")) }, "added_tokens[1]", `{`},
		{"added text taken", func(f *file) { f.token("<x>"); f.added(added(300, "<x>")) }, "added_tokens[0]", `{`},
		{"added empty", func(f *file) { f.added(added(256, "")) }, "added_tokens[0]", `{`},
		{"added negative", func(f *file) { f.added(added(-256, "<x>")) }, "added_tokens[0]", `{`},
		{"added without id", func(f *file) { a := added(0, "<x>"); delete(a, "id"); f.added(a) }, "added_tokens[0].id", `{`},
		{"added number", func(f *file) { f.set("added_tokens", []any{7}) }, "added_tokens[0]", `7`},
		{"vocabulary a list", func(f *file) { f.set("model.vocab", []any{}) }, "model.vocab", `[]`},
		{"type a number", func(f *file) { f.set("model.type", 7) }, "model.type", `7`},
		{"single byte is added too", func(f *file) { f.added(added(65, string(rune(byteOf['A'])))) }, "model.vocab", ""},
	} {
		f := newFile()
		test.change(f)
		data := f.json()
		_, err := Parse(data)
		var e *FormatError
		if !errors.Is(err, ErrFormat) || !errors.As(err, &e) {
			t.Errorf("%s: got %v, want a FormatError", test.name, err)
			continue
		}
		if e.Field != test.field || e.File != "tokenizer.json" {
			t.Errorf("%s: blamed on %q: %v", test.name, e.Field, e)
		}
		if (e.Offset < 0) != (test.text == "") || e.Offset >= 0 && !bytes.HasPrefix(data[e.Offset:], []byte(test.text)) {
			t.Errorf("%s: offset %d does not point to %s: %v", test.name, e.Offset, test.text, e)
		}
	}
}

func TestParseFindsBrokenJSON(t *testing.T) {
	whole := string(newFile().json())
	for _, text := range []string{
		"", " ", "[]", "null", "{", whole[:len(whole)-1], whole[:len(whole)/2], whole + "x", whole + "{}",
		strings.Replace(whole, `"vocab":{`, `"vocab":{,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"AA" 300,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"AA":300`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"AA":03,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"AA":3e2,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"A`+"\n"+`A":300,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"A`+"\xFF"+`A":300,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"\x41A":300,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"\ud83dA":300,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"\ud83d\u0041":300,`, 1),
		strings.Replace(whole, `"vocab":{`, `"vocab":{"\u00zzA":300,`, 1),
		strings.Replace(whole, `"merges":[]`, `"merges":["a b" "c d"]`, 1),
		strings.Replace(whole, `"version":"1.0"`, `"version":"1.0","version":"1.0"`, 1),
		strings.Replace(whole, `"padding":null`, `"padding":`+strings.Repeat("[", 100_000), 1),
		strings.Replace(whole, `"padding":null`, `"padding":@`, 1),
		strings.Replace(whole, `"dropout":null`, `"dropout":nul`, 1),
	} {
		_, err := Parse([]byte(text))
		var e *FormatError
		if !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(text)) {
			t.Errorf("%.40q...: got %v, want a FormatError with its place", text, err)
		}
	}
}

func TestParseReadsEscapes(t *testing.T) {
	f := newFile()
	f.added(added(256, "<é\"\\/\b\f\n\r\t🎉>"))
	data := strings.Replace(string(f.json()), "é", `\u00E9`, 1)
	data = strings.Replace(data, "🎉", `\uD83C\uDF89`, 1)
	tok, err := Parse([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tok.ID("<é\"\\/\b\f\n\r\t🎉>"); !ok {
		t.Errorf("added tokens are %+v", tok.Added())
	}
	// The vocabulary goes through the reader written here.
	escaped := strings.Replace(string(newFile().json()), `"A":`, `"\u0041":`, 1)
	escaped = strings.Replace(escaped, `"/":`, `"\/":`, 1)
	if tok, err = Parse([]byte(escaped)); err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode(nil, "A/"); !slices.Equal(got, []int32{'A', '/'}) {
		t.Errorf("got %v", got)
	}
}

// Some files list added tokens in the vocabulary too, with merges that lead to
// them. They stay out of reach of plain text all the same.
func TestAddedTokensInVocabulary(t *testing.T) {
	f := newFile()
	f.token("<x")
	f.token("<x>")
	f.vocab["<｜end｜>"] = 258
	f.merges("< x", "<x >")
	f.added(added(257, "<x>"), added(258, "<｜end｜>"))
	f.set("model.ignore_merges", true)
	tok, err := Parse(f.json())
	if err != nil {
		t.Fatal(err)
	}
	text := "<x><｜end｜>"
	for _, id := range tok.Encode(nil, text) {
		if id >= 257 {
			t.Errorf("plain text gave the added token %d", id)
		}
	}
	if got := tok.EncodeWithAdded(nil, text); !slices.Equal(got, []int32{257, 258}) {
		t.Errorf("trusted text gave %v", got)
	}
	if got := tok.Decode([]int32{257, 258}); got != text {
		t.Errorf("decoded to %q", got)
	}
}

func TestLoad(t *testing.T) {
	files := fstest.MapFS{"tokenizer.json": {Data: newFile().json()}}
	tok, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode(nil, "A"); !slices.Equal(got, []int32{'A'}) {
		t.Errorf("got %v", got)
	}
	if _, err := Load(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}
