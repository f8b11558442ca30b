package tokenizer

import (
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

func BenchmarkEncode(b *testing.B) {
	tok := loadCL100K(b)
	texts := map[string]string{"mixed": corpus.Mixed(1, 1<<20), "spaces": strings.Repeat(" ", 1<<20), "a": strings.Repeat("a", 1<<20)}
	names := []string{"mixed", "spaces", "a"}
	for _, kind := range corpus.Kinds {
		texts[string(kind)] = corpus.Text(kind, 1, 1<<20)
		names = append(names, string(kind))
	}
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			text := texts[name]
			ids := tok.Encode(nil, text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ids = tok.Encode(ids[:0], text)
			}
			b.ReportMetric(float64(len(text))/float64(len(ids)), "bytes/token")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := loadCL100K(b)
	ids := tok.Encode(nil, corpus.Mixed(1, 1<<20))
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	d := tok.NewDecoder()
	text := make([]byte, 0, 2<<20)
	for b.Loop() {
		text = text[:0]
		for _, id := range ids {
			text = d.Append(text, id)
		}
		text = d.Flush(text)
	}
}
