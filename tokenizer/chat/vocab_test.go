package chat

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// byteVocab is the smallest vocabulary with all control tokens: 256 bytes and
// the added tokens of GLM.
var byteVocab = sync.OnceValue(func() *tokenizer.Tokenizer {
	t, err := tokenizer.ParseRanks(byteRanks(), tokenizer.GLMAdded(256))
	if err != nil {
		panic(err)
	}
	return t
})

func byteRanks() []byte {
	var ranks []byte
	for b := range 256 {
		ranks = fmt.Appendf(ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	return ranks
}

// bigVocab has 100,256 tokens that were cut as GLM cuts text, and the added tokens
// of GLM.
var bigVocab = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	packed, err := os.ReadFile(filepath.Join("..", "testdata", "cl100k_base.tiktoken.gz"))
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	ranks, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return tokenizer.ParseRanks(ranks, tokenizer.GLMAdded(100300))
})

func bigVocabulary(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	v, err := bigVocab()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func renderer(t testing.TB, name string, v *tokenizer.Tokenizer) *Renderer {
	t.Helper()
	tmpl, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(tmpl, v)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// controlIDs returns the added tokens among ids.
func controlIDs(v *tokenizer.Tokenizer, ids []int32) []int32 {
	first := v.Added()[0].ID
	var found []int32
	for _, id := range ids {
		if id >= first {
			found = append(found, id)
		}
	}
	return found
}

// everyText returns all text of a conversation that a prompt can hold.
func everyText(c *Conversation) string {
	var b strings.Builder
	var parts func([]Part)
	parts = func(list []Part) {
		for i := range list {
			b.WriteString(list[i].Text)
			parts(list[i].Parts)
		}
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		b.WriteString(m.Content + "\x00" + m.Reasoning)
		parts(m.Parts)
		for j := range m.ToolCalls {
			b.WriteString(m.ToolCalls[j].Name)
			args, _ := parseJSON(m.ToolCalls[j].Arguments)
			b.Write(appendPython(nil, &args))
		}
	}
	for i := range c.Tools {
		object, _ := c.Tools[i].object()
		b.Write(appendPython(nil, &object))
	}
	return b.String()
}

func holdsControl(v *tokenizer.Tokenizer, text string) bool {
	for _, a := range v.Added() {
		if strings.Contains(text, a.Content) {
			return true
		}
	}
	return false
}
