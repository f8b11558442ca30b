package reply

import (
	"compress/gzip"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// realVocabulary is cl100k with GLM's control tokens: tokens of the length that
// a model's have.
var realVocabulary = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	f, err := os.Open("../testdata/cl100k_base.tiktoken.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	ranks, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	return tokenizer.ParseRanks(ranks, tokenizer.GLMAdded(100256))
})

const prose = "The parser keeps what it needs and no more. 数字 42, \"quotes\" and a line end:\n\tif err != nil { return err }\n"

// benchMessage is a message of n tokens: a third reasoning, some text, then calls
// that write files and read one line each.
func benchMessage(b *testing.B, n int) (*tokenizer.Tokenizer, []int32) {
	b.Helper()
	tok, err := realVocabulary()
	if err != nil {
		b.Fatal(err)
	}
	message := tok.EncodeWithAdded(nil, "<think>"+strings.Repeat(prose, 1+n/100)+"</think>"+strings.Repeat(prose, 4))
	for len(message) < n {
		message = tok.EncodeWithAdded(message, wire("write", "path", "a/b.go", "content", strings.Repeat(prose, 20))+wire("read", "path", "a/b.go", "line", "12"))
	}
	return tok, message[:n]
}

func benchParse(b *testing.B, tok *tokenizer.Tokenizer, message []int32, chunk int) {
	ts := tools(b, readTool, writeTool)
	var events []Event
	calls := 0
	b.SetBytes(int64(len(tok.Raw(nil, message...))))
	b.ReportAllocs()
	for b.Loop() {
		p, err := New(tok, ts, nil)
		if err != nil {
			b.Fatal(err)
		}
		calls = 0
		for rest := message; len(rest) > 0; {
			k := min(chunk, len(rest))
			events = p.Append(events[:0], rest[:k]...)
			rest = rest[k:]
			for _, e := range events {
				if _, ok := e.(ToolCall); ok {
					calls++
				}
			}
		}
		events = p.Finish(events[:0])
	}
	b.ReportMetric(float64(len(message))*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(float64(calls), "calls")
}

// BenchmarkParse reads a message of 10,000 tokens, one at a time as a model
// samples them, and all at once.
func BenchmarkParse(b *testing.B) {
	tok, message := benchMessage(b, 10000)
	b.Run("one by one", func(b *testing.B) { benchParse(b, tok, message, 1) })
	b.Run("at once", func(b *testing.B) { benchParse(b, tok, message, len(message)) })
}

// BenchmarkLongValue reads values of growing size; the bytes a second must not
// fall. The one full of tags is what costs most: each is held back until it is
// known to be text.
func BenchmarkLongValue(b *testing.B) {
	tok, err := realVocabulary()
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []struct{ name, piece string }{{"text", prose}, {"tags", "</arg_value> \n<arg_key>no key at all, it is text</tool_call>\n<tool_call>"}} {
		for _, size := range []int{64 << 10, 1 << 20} {
			message := tok.EncodeWithAdded(nil, wire("write", "path", "a", "content", strings.Repeat(kind.piece, size/len(kind.piece)))+"<|observation|>")
			b.Run(kind.name+" "+strconv.Itoa(size>>10)+" KB", func(b *testing.B) { benchParse(b, tok, message, 1) })
		}
	}
}

// BenchmarkTools compiles 20 declarations.
func BenchmarkTools(b *testing.B) {
	var list []Tool
	for i := range 20 {
		list = append(list, Tool{"tool_" + strconv.Itoa(i), []byte(strings.TrimPrefix(writeTool, "write "))})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewTools(list...); err != nil {
			b.Fatal(err)
		}
	}
}
