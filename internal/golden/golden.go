// Package golden reads the golden vectors: what the public reference implementation computes on
// the tiny checkpoints in testdata.
//
// # Layout
//
// A golden named N is three things: testdata/N, a checkpoint directory in the published format;
// testdata/N.golden.json, which says how it was made and what was chosen; and
// testdata/N.golden.bin, little-endian arrays that the JSON points into. They are made by the
// Python generator in generate; its README states what was verified about the reference.
//
// # What is recorded
//
// For each prompt: its ids, 64 greedy continuation ids, and for every position of the prompt and
// of the first 63 continuation ids the logits, the keys that each indexer selected and the experts
// that each router chose. A choice never hangs on less than 1e-5 in the reference, except where
// scores are exactly equal; then the lower position wins.
//
// # Caveats
//
// The greedy ids are a plain argmax and run past end-of-sequence ids. The norms of the MLA latents
// use LatentEps, 1e-6 in the reference, not the configuration's eps.
package golden

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// format is the version of the golden files that this package reads.
const format = 1

// Golden is one checkpoint with the reference's answers.
type Golden struct {
	Name  string
	About string
	// Dir is the checkpoint directory.
	Dir string
	// Reference says which implementation and versions computed the vectors.
	Reference Reference
	Seed      int

	NormEps    float64 // layer norms, final norm, QK norms
	LatentEps  float64 // q_a_layernorm and kv_a_layernorm; 0 for models without MLA
	IndexerEps float64 // indexer k_norm; 0 for models without an indexer

	VocabSize       int
	NumLayers       int
	IndexTopK       int // 0 for models without an indexer
	ExpertsPerToken int

	Gaps Gaps
	// Noise is the largest difference in a logit between the reference in float32 and in float64.
	Noise float64

	Prompts []Prompt
}

// Reference names the implementation that made a golden.
type Reference struct {
	Class        string   `json:"class"`
	Python       string   `json:"python"`
	Torch        string   `json:"torch"`
	Transformers string   `json:"transformers"`
	Attention    string   `json:"attention"`
	DType        string   `json:"dtype"`
	Corrections  []string `json:"corrections"` // what was replaced in it, and by what
}

// Gaps are the smallest distances on which a choice in a golden hangs.
type Gaps struct {
	Top2    float64 `json:"greedy_top2"`      // between the two best logits of a greedy step
	Indexer float64 `json:"indexer_boundary"` // between the last key selected and the first not; 0 without indexer
	Router  float64 `json:"router"`           // between neighbours of the chosen experts and the first not chosen
	// TiedRows counts the rows whose indexer boundary is an exact tie at score zero.
	TiedRows int `json:"-"`
}

// Prompt is one sequence: the prompt and its greedy continuation.
type Prompt struct {
	IDs    []int32
	Greedy []int32 // 64 ids
	// Logits has one row of VocabSize for each id of Fed.
	Logits [][]float32
	// Selected gives, by layer that runs an indexer and by row, the selected positions in ascending
	// order: min(IndexTopK, row+1) of them.
	Selected map[int][][]int32
	// Routed gives, by sparse layer and by row, the chosen experts, best first.
	Routed map[int][]Route
}

// Fed returns the ids that the rows of p belong to: the prompt and all but the last greedy id.
func (p *Prompt) Fed() []int32 {
	return slices.Concat(p.IDs, p.Greedy[:len(p.Greedy)-1])
}

// Route is a router's choice for one row.
type Route struct {
	Experts []int32
	Weights []float32 // normalised and scaled, as multiplied to the experts' outputs
}

// FormatError says which part of a golden file is not as it should be.
type FormatError struct {
	File       string
	Field      string
	Want, Have string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("golden: %s: %s: want %s, have %s", e.File, e.Field, e.Want, e.Have)
}

// Dir returns the testdata directory of this package. It looks beside this source file and, for
// binaries built with -trimpath, upwards from the working directory.
func Dir() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if dir := filepath.Join(filepath.Dir(file), "testdata"); isDir(dir) {
			return dir, nil
		}
	}
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("golden: %w", err)
	}
	for {
		if dir := filepath.Join(at, "internal", "golden", "testdata"); isDir(dir) {
			return dir, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", fmt.Errorf("golden: testdata: %w", os.ErrNotExist)
		}
		at = up
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Names returns the names of all goldens in ascending order.
func Names() ([]string, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.golden.json"))
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(filepath.Base(f), ".golden.json")
	}
	slices.Sort(names)
	return names, nil
}

// Load reads the golden called name.
func Load(name string) (*Golden, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	return load(dir, name)
}

func load(dir, name string) (*Golden, error) {
	if name != filepath.Base(name) {
		return nil, &FormatError{File: name, Field: "name", Want: "a plain name", Have: "a path"}
	}
	path := filepath.Join(dir, name+".golden.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("golden: %s: %w", filepath.Base(path), err)
	}
	data, err := os.ReadFile(filepath.Join(dir, name+".golden.bin"))
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	b := blob{file: name + ".golden.json", data: data}
	b.equal("format", format, h.Format)
	b.equal("blob.bytes", h.Blob.Bytes, len(data))
	sum := sha256.Sum256(data)
	b.equal("blob.sha256", h.Blob.SHA256, hex.EncodeToString(sum[:]))
	g := &Golden{
		Name: h.Name, About: h.About, Dir: filepath.Join(dir, name), Reference: h.Reference, Seed: h.Seed,
		NormEps: h.NormEps, LatentEps: h.LatentEps, IndexerEps: h.IndexerEps,
		VocabSize: h.VocabSize, NumLayers: h.NumLayers, IndexTopK: h.IndexTopK, ExpertsPerToken: h.ExpertsPerToken,
		Gaps: h.Gaps, Noise: h.Noise,
	}
	g.Gaps.TiedRows = h.TiedRows
	for i, p := range h.Prompts {
		g.Prompts = append(g.Prompts, b.prompt(fmt.Sprintf("prompts[%d]", i), g, p))
	}
	if b.err != nil {
		return nil, b.err
	}
	return g, nil
}

// header is the JSON half of a golden.
type header struct {
	Format    int       `json:"format"`
	Name      string    `json:"name"`
	About     string    `json:"about"`
	Reference Reference `json:"reference"`
	Seed      int       `json:"seed"`
	Gaps      Gaps      `json:"gaps"`
	TiedRows  int       `json:"indexer_tied_rows"`
	Noise     float64   `json:"max_f32_f64"`

	NormEps    float64 `json:"norm_eps"`
	LatentEps  float64 `json:"latent_eps"`
	IndexerEps float64 `json:"indexer_eps"`

	VocabSize       int `json:"vocab_size"`
	NumLayers       int `json:"num_layers"`
	IndexTopK       int `json:"index_topk"`
	ExpertsPerToken int `json:"experts_per_token"`

	Blob struct {
		Bytes  int    `json:"bytes"`
		SHA256 string `json:"sha256"`
	} `json:"blob"`
	Prompts []promptRecord `json:"prompts"`
}

type promptRecord struct {
	IDs     []int32 `json:"ids"`
	Greedy  []int32 `json:"greedy"`
	Logits  array   `json:"logits"`
	Indexer []struct {
		Layer    int   `json:"layer"`
		Selected array `json:"selected"` // the rows' lists one after another
	} `json:"indexer"`
	Router []struct {
		Layer   int   `json:"layer"`
		Experts array `json:"experts"`
		Weights array `json:"weights"`
	} `json:"router"`
}

// array places a little-endian int32 or float32 array in the binary half.
type array struct {
	Offset int   `json:"offset"`
	Shape  []int `json:"shape"`
}

// blob reads arrays and keeps the first thing that was wrong.
type blob struct {
	file string
	data []byte
	err  error
}

func (b *blob) equal(field string, want, have any) {
	if b.err == nil && want != have {
		b.err = &FormatError{File: b.file, Field: field, Want: fmt.Sprint(want), Have: fmt.Sprint(have)}
	}
}

func (b *blob) prompt(field string, g *Golden, r promptRecord) Prompt {
	p := Prompt{IDs: r.IDs, Greedy: r.Greedy, Selected: map[int][][]int32{}, Routed: map[int][]Route{}}
	if len(p.IDs) == 0 || len(p.Greedy) == 0 {
		b.equal(field, "ids and greedy ids", "none")
		return p
	}
	rows := len(p.IDs) + len(p.Greedy) - 1
	p.Logits = chunks(b.floats(field+".logits", r.Logits, rows, g.VocabSize), rows, g.VocabSize)
	total := 0
	for row := range rows {
		total += min(g.IndexTopK, row+1)
	}
	for _, x := range r.Indexer {
		rest := b.ints(fmt.Sprintf("%s.indexer of layer %d", field, x.Layer), x.Selected, total)
		for row := 0; row < rows && len(rest) > 0; row++ {
			n := min(g.IndexTopK, row+1)
			p.Selected[x.Layer] = append(p.Selected[x.Layer], rest[:n:n])
			rest = rest[n:]
		}
	}
	for _, x := range r.Router {
		at := fmt.Sprintf("%s.router of layer %d", field, x.Layer)
		k := g.ExpertsPerToken
		experts := chunks(b.ints(at, x.Experts, rows, k), rows, k)
		weights := chunks(b.floats(at, x.Weights, rows, k), rows, k)
		if b.err != nil {
			return p
		}
		for row := range rows {
			p.Routed[x.Layer] = append(p.Routed[x.Layer], Route{Experts: experts[row], Weights: weights[row]})
		}
	}
	return p
}

func (b *blob) ints(field string, a array, shape ...int) []int32 {
	raw := b.bytes(field, a, shape)
	out := make([]int32, len(raw)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

func (b *blob) floats(field string, a array, shape ...int) []float32 {
	raw := b.bytes(field, a, shape)
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

// bytes returns the array's bytes after checking its shape and place, or nil.
func (b *blob) bytes(field string, a array, shape []int) []byte {
	b.equal(field+" shape", fmt.Sprint(shape), fmt.Sprint(a.Shape))
	if b.err != nil {
		return nil
	}
	n := 4
	for _, s := range shape {
		n *= s
	}
	if a.Offset < 0 || n > len(b.data) || a.Offset > len(b.data)-n {
		b.equal(field+" offset", fmt.Sprintf("%d bytes inside %d", n, len(b.data)), fmt.Sprintf("offset %d", a.Offset))
		return nil
	}
	return b.data[a.Offset : a.Offset+n]
}

// chunks cuts x into rows slices of width elements; nil if x does not hold them.
func chunks[T any](x []T, rows, width int) [][]T {
	if len(x) != rows*width {
		return nil
	}
	out := make([][]T, rows)
	for i := range out {
		out[i] = x[i*width : (i+1)*width : (i+1)*width]
	}
	return out
}
