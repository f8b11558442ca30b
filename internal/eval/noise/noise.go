// Package noise makes checkpoints with random weights: a model that was never
// trained, with the configuration, tokenizer and template of one that was. What
// it can do shows what a harness gives away.
package noise

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"testing/fstest"

	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// FS returns the files of a checkpoint directory with weights drawn from a seed.
// Weights are of a size that keeps activations near one.
func FS(fsys fs.FS, seed uint64) (fs.FS, error) {
	config, err := fs.ReadFile(fsys, "config.json")
	if err != nil {
		return nil, err
	}
	c, err := checkpoint.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{}
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".json", ".jinja":
			if e.Name() == "model.safetensors.index.json" {
				continue
			}
			data, err := fs.ReadFile(fsys, e.Name())
			if err != nil {
				return nil, err
			}
			files[e.Name()] = &fstest.MapFile{Data: data}
		}
	}
	data, err := Weights(c, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return nil, err
	}
	files["model.safetensors"] = &fstest.MapFile{Data: data}
	return files, nil
}

// Weights returns a safetensors file of the published layout with random weights,
// of a size that keeps activations near one. Formats other than BF16 and F32 are
// refused.
func Weights(c *checkpoint.Config, random *rand.Rand) ([]byte, error) {
	header, data := map[string]any{}, []byte(nil)
	for e := range checkpoint.Inventory(c, checkpoint.LayoutBF16) {
		begin := len(data)
		for range e.Elements() {
			x := random.NormFloat64()
			switch {
			case e.Kind == checkpoint.KindEmbedding:
			case e.DType == checkpoint.F32: // the router's bias
				x = 7 + 0.1*x
			case len(e.Shape) == 1:
				x = 1 + 0.1*x
			default:
				x *= 1.5 / math.Sqrt(float64(e.Shape[len(e.Shape)-1]))
			}
			bits := math.Float32bits(float32(x))
			switch e.DType {
			case checkpoint.F32:
				data = binary.LittleEndian.AppendUint32(data, bits)
			case checkpoint.BF16:
				data = binary.LittleEndian.AppendUint16(data, uint16(bits>>16))
			default:
				return nil, fmt.Errorf("noise: %s is %v, want BF16 or F32", e.Name, e.DType)
			}
		}
		header[e.Name] = map[string]any{"dtype": e.DType, "shape": e.Shape, "data_offsets": []int{begin, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data), nil
}
