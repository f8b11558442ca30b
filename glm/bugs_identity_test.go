package glm

import (
	"encoding/binary"
	"slices"
	"testing"
	"testing/fstest"
)

// Bug 31: other weights under the same name. One byte at either end of the file
// is another identity, which every key and every hand-off carries.
func TestOtherWeightsOtherIdentity(t *testing.T) {
	files := fixtureFiles()
	whole := files["model.safetensors"].Data
	first := 8 + int(binary.LittleEndian.Uint64(whole))
	seen := []string{openFixture(t, "").identity.weights}
	for _, at := range []int{first, len(whole) - 2} {
		data := slices.Clone(whole)
		data[at] ^= 1
		files["model.safetensors"] = &fstest.MapFile{Data: data, Mode: 0o600}
		weights := openFiles(t, files, Config{Template: "GLM-5.2"}).identity.weights
		if slices.Contains(seen, weights) {
			t.Errorf("byte %d is another, and the identity is the same", at)
		}
		seen = append(seen, weights)
	}
}
