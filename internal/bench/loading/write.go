package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// write makes the checkpoint, config.json last, so that half a one is made again.
// Its bytes are random: a disk that compresses gains nothing.
func write(dir string, layers int) error {
	config := synthetic.Flash(layers, 1, 154880)
	c, err := checkpoint.ParseConfig([]byte(config))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
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
		return err
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
	w.Write(text)
	state := uint64(1)
	for e := range checkpoint.Inventory(c, checkpoint.LayoutBF16) {
		var word [8]byte
		for n := e.Bytes(); n > 0; n -= 8 {
			// Xorshift; then, in each pair of bytes, an exponent of a weight: +-2^-7 to 2^-6.
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			x := state&0x807f_807f_807f_807f | 0x3c00_3c00_3c00_3c00
			binary.LittleEndian.PutUint64(word[:], x)
			w.Write(word[:min(n, 8)])
		}
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644)
}
