package tokenizer

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

// cl100k is a real vocabulary with the split pattern of GLM.
var cl100k = sync.OnceValues(func() (*Tokenizer, error) {
	packed, err := os.ReadFile("testdata/cl100k_base.tiktoken.gz")
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
	return ParseRanks(ranks, GLMAdded(100_256))
})

func loadCL100K(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := cl100k()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestRealVocabulary(t *testing.T) {
	tok := loadCL100K(t)
	text := "Hello, world! don't 你好世界 1234567890  x\n\n  y <|user|>"
	want := []int32{9906, 11, 1917, 0, 1541, 956, 220, 57668, 53901, 3574, 244, 98220, 220, 4513, 10961, 16474, 15,
		220, 865, 271, 220, 379, 83739, 882, 91, 29} // tiktoken 0.14.0
	if got := tok.Encode(nil, text); !slices.Equal(got, want) {
		t.Errorf("Encode:\n got %v\nwant %v", got, want)
	}
	want = []int32{64, 100263, 65}
	if got := tok.EncodeWithAdded(nil, "a<|user|>b"); !slices.Equal(got, want) {
		t.Errorf("EncodeWithAdded: got %v, want %v", got, want)
	}
	if got := tok.Decode(tok.Encode(nil, text)); got != text {
		t.Errorf("Decode: got %q", got)
	}
}

func TestNoAllocation(t *testing.T) {
	tok := loadCL100K(t)
	text := corpus.Mixed(3, 1<<16)
	ids := make([]int32, 0, len(text))
	// A new merger is made where the pool of them was emptied, which the race
	// detector does on purpose; 30,000 tokens allocate nothing.
	const most = 100
	if n := testing.AllocsPerRun(10, func() { ids = tok.EncodeWithAdded(ids[:0], text) }); n > most {
		t.Errorf("EncodeWithAdded allocates %v times", n)
	}
	if n := testing.AllocsPerRun(10, func() { ids = tok.Encode(ids[:0], text) }); n > most {
		t.Errorf("Encode allocates %v times", n)
	}
	d := tok.NewDecoder()
	out := make([]byte, 0, 2*len(text))
	if n := testing.AllocsPerRun(10, func() {
		out = out[:0]
		for _, id := range ids {
			out = d.Append(out, id)
		}
		out = d.Flush(out)
	}); n != 0 {
		t.Errorf("the Decoder allocates %v times", n)
	}
	if string(out) != text {
		t.Error("the text came back changed")
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := loadCL100K(t)
	text := corpus.Mixed(4, 1<<15)
	want := tok.EncodeWithAdded(nil, text)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if got := tok.EncodeWithAdded(nil, text); !slices.Equal(got, want) {
				t.Error("ids differ when encoding at the same time")
			}
			if got := tok.Decode(want); got != text {
				t.Error("text differs when decoding at the same time")
			}
		})
	}
	wait.Wait()
}
