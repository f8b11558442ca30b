package noise

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// The published layout with other weights: it opens, it says what the seed says,
// and the trained weights are gone.
func TestFS(t *testing.T) {
	source := os.DirFS("../../golden/testdata/glm52")
	a, err := FS(source, 1)
	if err != nil {
		t.Fatal(err)
	}
	same, err := FS(source, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := FS(source, 2)
	if err != nil {
		t.Fatal(err)
	}
	weights := func(f fs.FS) []byte {
		data, err := fs.ReadFile(f, "model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(weights(a), weights(same)) || bytes.Equal(weights(a), weights(other)) {
		t.Error("the seed does not decide the weights")
	}
	if _, err := fs.Stat(a, "model-00001-of-00002.safetensors"); err == nil {
		t.Error("the trained weights are still there")
	}
	m, err := glm.OpenFS(t.Context(), a, glm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 64, AllowSmallerPool: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := glm.Collect(pool.Generate(t.Context(), "", glm.Request{Tokens: []int32{1, 2, 3}, MaxTokens: 8}))
	if err != nil || len(r.Tokens) == 0 {
		t.Errorf("%d tokens, %v", len(r.Tokens), err)
	}
}
