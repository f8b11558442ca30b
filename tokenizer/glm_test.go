package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// The real ids of 65 texts in GLM-5's vocabulary. The project does not carry the
// vocabulary, so by default the ids are held against the split alone: no token
// may span two pieces, and one id must mean the same bytes everywhere. With
// COFFERDAM_GLM5 set to a directory with the tokenizer.json of a GLM-5
// checkpoint, the ids themselves are compared.
const glmGoldens = "../../shared/data/glm5-tokenizer-goldens.json"

type glmCase struct {
	Text string
	IDs  []int32
}

func loadGLMGoldens(t *testing.T) []glmCase {
	t.Helper()
	data, err := os.ReadFile(glmGoldens)
	if os.IsNotExist(err) {
		t.Skipf("%s is not there: the ids of GLM-5 are not tested", glmGoldens)
	}
	if err != nil {
		t.Fatal(err)
	}
	var goldens struct{ Cases []glmCase }
	if err := json.Unmarshal(data, &goldens); err != nil {
		t.Fatal(err)
	}
	if len(goldens.Cases) < 65 {
		t.Fatalf("%d cases, want 65", len(goldens.Cases))
	}
	return goldens.Cases
}

func TestGLMGoldenIDs(t *testing.T) {
	cases := loadGLMGoldens(t)
	dir := os.Getenv("COFFERDAM_GLM5")
	if dir == "" {
		t.Skip("COFFERDAM_GLM5 is not set: no vocabulary to compare ids with")
	}
	tok, err := Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if got := tok.Encode(nil, c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q: got %v, want %v", c.Text, got, c.IDs)
		}
		if got := tok.Decode(c.IDs); got != c.Text {
			t.Errorf("%v: got %q, want %q", c.IDs, got, c.Text)
		}
	}
}

// TestGLMGoldenPieces learns what it can of the vocabulary from the goldens: the
// single bytes, which have the ids 0 to 255 in the order of the byte-level
// alphabet, and every piece that is one token. Then each case must be explained.
func TestGLMGoldenPieces(t *testing.T) {
	cases := loadGLMGoldens(t)
	known := map[int32]string{}
	for _, b := range byteLevelOrder() {
		known[int32(len(known))] = string([]byte{b})
	}
	learn := func(id int32, piece, text string) {
		if was, ok := known[id]; ok && was != piece {
			t.Errorf("%q: id %d is %q here and %q elsewhere", text, id, piece, was)
		}
		known[id] = piece
	}
	for _, c := range cases {
		if pieces := split(c.Text); len(pieces) == len(c.IDs) {
			for i, piece := range pieces {
				learn(c.IDs[i], piece, c.Text)
			}
		}
	}
	texts := map[string]int32{}
	for id, text := range known {
		if other, ok := texts[text]; ok {
			t.Errorf("%q has ids %d and %d", text, id, other)
		}
		texts[text] = id
	}
	wholePieces := 0
	for _, c := range cases {
		pieces := split(c.Text)
		if len(pieces) == len(c.IDs) {
			wholePieces++
		}
		if !explains(pieces, c.IDs, known) {
			t.Errorf("%q: no way to part %v over the pieces %q", c.Text, c.IDs, pieces)
		}
	}
	t.Logf("%d cases, %d of them with one token for each piece, %d tokens learnt", len(cases), wholePieces, len(known)-256)
	if wholePieces < 30 {
		t.Errorf("only %d cases have one token for each piece", wholePieces)
	}
}

// explains reports whether ids can stand for pieces: every token lies within one
// piece, has the bytes known for it, or some that no known token has.
func explains(pieces []string, ids []int32, known map[int32]string) bool {
	if len(pieces) == 0 || len(ids) == 0 {
		return len(pieces) == len(ids)
	}
	piece := pieces[0]
	rest := func(n int) bool {
		if n == len(piece) {
			return explains(pieces[1:], ids[1:], known)
		}
		return explains(append([]string{piece[n:]}, pieces[1:]...), ids[1:], known)
	}
	if token, ok := known[ids[0]]; ok {
		return strings.HasPrefix(piece, token) && rest(len(token))
	}
	for n := len(piece); n >= 2; n-- { // all single bytes are known
		if rest(n) {
			return true
		}
	}
	return false
}

// byteLevelOrder lists the bytes in the order of the byte-level alphabet.
func byteLevelOrder() (order []byte) {
	for _, b := range byteOf {
		if b >= 0 {
			order = append(order, byte(b))
		}
	}
	return order
}
