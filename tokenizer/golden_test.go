package tokenizer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

// The hashes in testdata/golden.json come from two reference tokenizers; see
// differential/README.md.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		CL100K []struct {
			Kind         corpus.Kind
			Text         string
			Tokens       int
			IDs          string
			IDsWithAdded string `json:"ids_with_added"`
		} `json:"cl100k_base"`
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if got, want := len(golden.CL100K), len(corpus.Kinds); got != want {
		t.Fatalf("hashes for %d kinds of text, want %d", got, want)
	}
	tok := loadCL100K(t)
	for _, g := range golden.CL100K {
		t.Run(string(g.Kind), func(t *testing.T) {
			text := corpus.Golden(g.Kind)
			if got := hash([]byte(text)); got != g.Text {
				t.Fatalf("the text has hash %s, want %s: package corpus has changed", got, g.Text)
			}
			ids := tok.Encode(nil, text)
			if len(ids) != g.Tokens {
				t.Errorf("%d tokens, want %d", len(ids), g.Tokens)
			}
			if got := hashIDs(ids); got != g.IDs {
				t.Errorf("ids have hash %s, want %s", got, g.IDs)
			}
			if g.IDsWithAdded == "" { // text that is not UTF-8
				return
			}
			if got := hashIDs(tok.EncodeWithAdded(nil, text)); got != g.IDsWithAdded {
				t.Errorf("with added tokens, ids have hash %s, want %s", got, g.IDsWithAdded)
			}
		})
	}
}

func hashIDs(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return hash(b)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
