package tokenizer

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
)

const jsonFile = "tokenizer.json"

// Load reads the tokenizer of a checkpoint directory: its tokenizer.json. The
// other files there that speak of the tokenizer repeat parts of it.
//
// The error is the file system's, or as [Parse] returns it.
func Load(fsys fs.FS) (*Tokenizer, error) {
	f, err := fsys.Open(jsonFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Parse reads the content of a tokenizer.json.
//
// It takes byte-level BPE with the split pattern and the decoder of GLM and
// refuses everything else by name, as an [*UnsupportedError]: another model
// type, a normalizer, dropout, an unknown token, byte fallback, another
// pre-tokenizer or decoder, added tokens that swallow blanks or want word
// borders. Merges may be written "a b" or ["a", "b"]; ignore_merges is honoured.
// The post-processor, truncation and padding are passed over: they concern whole
// prompts, which are not made here.
func Parse(data []byte) (*Tokenizer, error) {
	p := &parser{
		jsonReader: jsonReader{data: data, file: jsonFile},
		b:          builder{file: jsonFile, vocabField: "model.vocab", byteLevel: true},
	}
	if err := p.b.checkFileSize(len(data)); err != nil {
		return nil, err
	}
	err := p.fields("", map[string]func(string) error{
		"version":       func(f string) error { return p.decode(f, &p.version) },
		"normalizer":    func(f string) error { return p.decode(f, &p.normalizer) },
		"pre_tokenizer": func(f string) error { return p.decode(f, &p.preTokenizer) },
		"decoder":       func(f string) error { return p.decode(f, &p.decoder) },
		"added_tokens":  p.addedTokens,
		"model":         p.readModel,
	})
	if err == nil {
		err = p.end()
	}
	if err == nil {
		err = p.checkSettings()
	}
	if err != nil {
		return nil, err
	}
	return p.tokenizer()
}

// A parser reads the sections of a tokenizer.json, in whatever order they come.
type parser struct {
	jsonReader
	b            builder
	version      *string
	normalizer   *component
	preTokenizer *component
	decoder      *component
	model        modelSettings
	mergesAt     int // where model.merges begins, 0 if it is missing
}

// A component is one entry of a processing chain, of any kind; Sequence nests.
type component struct {
	Type           string
	Normalizers    []component
	Pretokenizers  []component
	Decoders       []component
	Pattern        struct{ Regex *string }
	Behavior       string
	Invert         bool
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`
}

type modelSettings struct {
	Type                    string
	Dropout                 *float64
	UnkToken                *string
	ContinuingSubwordPrefix *string
	EndOfWordSuffix         *string
	ByteFallback            bool
	IgnoreMerges            bool
}

// readModel reads the model; its merges, which need the whole vocabulary, are
// left for later.
func (p *parser) readModel(field string) error {
	m := &p.model
	into := func(v any) func(string) error {
		return func(f string) error { return p.decode(f, v) }
	}
	return p.fields(field, map[string]func(string) error{
		"type":                      into(&m.Type),
		"dropout":                   into(&m.Dropout),
		"unk_token":                 into(&m.UnkToken),
		"continuing_subword_prefix": into(&m.ContinuingSubwordPrefix),
		"end_of_word_suffix":        into(&m.EndOfWordSuffix),
		"byte_fallback":             into(&m.ByteFallback),
		"ignore_merges":             into(&m.IgnoreMerges),
		"vocab":                     p.vocab,
		"merges": func(f string) error {
			p.peek()
			p.mergesAt = p.pos
			return p.skip(f, 0)
		},
	})
}

func (p *parser) vocab(field string) error {
	return p.object(field, func(key string, at int) error {
		p.peek()
		id, err := p.integer(field)
		if err != nil {
			return err
		}
		return p.b.addKey(key, id, int64(at))
	})
}

func (p *parser) addedTokens(field string) error {
	return p.array(field, func(i int) error {
		at := p.pos
		field := fmt.Sprintf("%s[%d]", field, i)
		var a struct {
			ID         *int64
			Content    string
			SingleWord bool `json:"single_word"`
			LStrip     bool
			RStrip     bool
			Normalized bool
			Special    bool
		}
		if err := p.decode(field, &a); err != nil {
			return err
		}
		if a.ID == nil {
			return p.errorAt(at, field+".id", "an id")
		}
		for _, flag := range []struct {
			name string
			set  bool
		}{{"single_word", a.SingleWord}, {"lstrip", a.LStrip}, {"rstrip", a.RStrip}} {
			if flag.set {
				return &UnsupportedError{File: jsonFile, Field: field + "." + flag.name, Value: "true", Supported: "false"}
			}
		}
		if err := p.b.checkID(field, int64(at), *a.ID); err != nil {
			return err
		}
		p.b.added = append(p.b.added, addedToken{
			Added:      Added{ID: int32(*a.ID), Content: a.Content, Special: a.Special},
			normalized: a.Normalized,
			field:      field,
			offset:     int64(at),
		})
		return nil
	})
}

// checkSettings refuses, by name, all that GLM vocabularies do not use.
func (p *parser) checkSettings() error {
	var err error
	want := func(field, value string, ok bool, supported string) {
		if err == nil && !ok {
			err = &UnsupportedError{File: jsonFile, Field: field, Value: value, Supported: supported}
		}
	}
	if p.version != nil {
		want("version", show(*p.version), *p.version == "1.0", `"1.0"`)
	}
	if n := p.normalizer; n != nil {
		want("normalizer.type", show(n.Type), n.Type == "Sequence", "null")
		for i, n := range n.Normalizers {
			want(fmt.Sprintf("normalizer.normalizers[%d].type", i), show(n.Type), false, "an empty sequence")
		}
	}

	m := &p.model
	want("model.type", show(m.Type), m.Type == "BPE", `"BPE"`)
	want("model.dropout", fmt.Sprint(deref(m.Dropout)), deref(m.Dropout) == 0, "null")
	want("model.unk_token", show(deref(m.UnkToken)), m.UnkToken == nil, "null")
	for _, affix := range []struct {
		field string
		value *string
	}{
		{"model.continuing_subword_prefix", m.ContinuingSubwordPrefix},
		{"model.end_of_word_suffix", m.EndOfWordSuffix},
	} {
		want(affix.field, show(deref(affix.value)), deref(affix.value) == "", "null")
	}
	want("model.byte_fallback", "true", !m.ByteFallback, "false")

	chain := flatten("pre_tokenizer", p.preTokenizer, func(c component) (string, []component) {
		return ".pretokenizers", c.Pretokenizers
	})
	want("pre_tokenizer", typesOf(chain), typesOf(chain) == "Split, ByteLevel", "Split, ByteLevel")
	for _, c := range chain {
		switch c.Type {
		case "Split":
			pattern := deref(c.Pattern.Regex)
			want(c.field+".pattern.Regex", show(pattern), pattern == splitPattern, splitPattern)
			want(c.field+".behavior", show(c.Behavior), c.Behavior == "Isolated", `"Isolated"`)
			want(c.field+".invert", "true", !c.Invert, "false")
		case "ByteLevel": // both settings are true when missing
			want(c.field+".add_prefix_space", "true", c.AddPrefixSpace != nil && !*c.AddPrefixSpace, "false")
			want(c.field+".use_regex", "true", c.UseRegex != nil && !*c.UseRegex, "false")
		}
	}

	chain = flatten("decoder", p.decoder, func(c component) (string, []component) {
		return ".decoders", c.Decoders
	})
	want("decoder", typesOf(chain), typesOf(chain) == "ByteLevel", "ByteLevel")
	return err
}

type placed struct {
	component
	field string
}

// flatten lists the components of a chain without the sequences around them.
func flatten(field string, c *component, inner func(component) (string, []component)) []placed {
	if c == nil {
		return nil
	}
	if c.Type != "Sequence" {
		return []placed{{*c, field}}
	}
	name, list := inner(*c)
	var chain []placed
	for i := range list {
		chain = append(chain, flatten(fmt.Sprintf("%s%s[%d]", field, name, i), &list[i], inner)...)
	}
	return chain
}

func typesOf(chain []placed) string {
	var types []string
	for _, c := range chain {
		types = append(types, c.Type)
	}
	if types == nil {
		return "null"
	}
	return strings.Join(types, ", ")
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
