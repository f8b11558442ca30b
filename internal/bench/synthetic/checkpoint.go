package synthetic

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// Open writes a checkpoint of the given config.json to an empty directory and opens
// it. Its weights are a hole in a file and read as zeros.
func Open(dir, config string) (*checkpoint.Checkpoint, error) {
	c, err := checkpoint.ParseConfig([]byte(config))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	type tensor struct {
		DType  checkpoint.DType `json:"dtype"`
		Shape  []int            `json:"shape"`
		Offset [2]int64         `json:"data_offsets"`
	}
	header, at := map[string]tensor{}, int64(0)
	for e := range checkpoint.Inventory(c, checkpoint.LayoutBF16) {
		header[e.Name] = tensor{e.DType, e.Shape, [2]int64{at, at + e.Bytes()}}
		at += e.Bytes()
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	head := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return nil, err
	}
	_, err = f.Write(head)
	if err = errors.Join(err, f.Truncate(int64(len(head))+at), f.Close()); err != nil {
		return nil, err
	}
	return checkpoint.Open(dir)
}
