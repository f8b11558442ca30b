package tiny

import (
	"io/fs"
	"testing"
)

func TestFSHoldsAPublishedCheckpoint(t *testing.T) {
	total := int64(0)
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors"} {
		info, err := fs.Stat(FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if most := int64(12 << 20); total > most {
		t.Errorf("the checkpoint has %d bytes; want at most %d", total, most)
	}
}
