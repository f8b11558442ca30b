package glm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// An Inspection is what a checkpoint's configuration and headers say. Parameters
// are stored values without quantisation scales; bytes are of everything stored.
type Inspection struct {
	ModelType string // model_type of config.json
	Layers    int    // without MTP layers
	MTPLayers int
	Experts   int // routed experts of a sparse layer
	TopK      int // of them chosen per token
	Context   int // positions that the model was made for

	Tensors    int
	Parameters int64 // all, with MTP layers and a vision tower if there are any
	Active     int64 // read per token: the main stack with TopK experts; of the input embedding one row, not counted
	Bytes      int64

	Kinds  []KindSize  // by purpose, largest first
	DTypes []DTypeSize // by element type, largest first
	KV     []KVCost    // by format of the cache, widest first

	Files   bool  // there are weight files
	Checked bool  // their headers were read and agree with config.json; if not, the sizes above follow from config.json
	Refusal error // why the model cannot be run, an *UnsupportedError; nil if it can
}

// KindSize is the share of one kind of tensor.
type KindSize struct {
	Kind       string
	Tensors    int
	Parameters int64
	Bytes      int64
}

// DTypeSize is the share of one element type, as safetensors names it.
type DTypeSize struct {
	DType   string
	Tensors int
	Bytes   int64
}

// KVCost is the memory of the cache in one format, MTP layers not included.
type KVCost struct {
	Format      string // "f32", "bf16" or "fp8"
	PerToken    int64  // bytes
	PerSequence int64  // bytes of recurrent state, whatever the length
	FullContext int64  // bytes of one sequence of Context tokens
}

// Inspect reads the configuration and the headers of a checkpoint, no weights. A
// directory that holds only config.json is fine: sizes then follow from it.
//
// A model that cannot be run is no error here, see Inspection.Refusal, unless
// its config.json makes no sense to this module at all (*UnsupportedError). Files
// that are broken or disagree are a *CheckpointError.
func Inspect(dir string) (*Inspection, error) {
	l, err := checkpoint.Scan(dir)
	if err != nil {
		return nil, err
	}
	c := l.Config
	in := &Inspection{
		ModelType: string(c.Family), Layers: c.Layers, MTPLayers: c.MTPLayers, Experts: c.Experts, TopK: c.TopK,
		Context: c.MaxPositions, KV: kvCosts(c), Files: l.Files, Checked: l.Checked(), Refusal: c.Runnable(),
	}
	kinds, dtypes := make(map[checkpoint.Kind]*KindSize), make(map[checkpoint.DType]*DTypeSize)
	var routed int64
	for e := range l.Tensors() {
		k, ok := kinds[e.Kind]
		if !ok {
			k = &KindSize{Kind: string(e.Kind)}
			kinds[e.Kind] = k
		}
		d, ok := dtypes[e.DType]
		if !ok {
			d = &DTypeSize{DType: string(e.DType)}
			dtypes[e.DType] = d
		}
		in.Tensors++
		k.Tensors++
		d.Tensors++
		in.Bytes += e.Bytes()
		k.Bytes += e.Bytes()
		d.Bytes += e.Bytes()
		if e.Scale {
			continue
		}
		n := e.Elements()
		in.Parameters += n
		k.Parameters += n
		switch e.Kind {
		case checkpoint.KindMTP, checkpoint.KindVision, checkpoint.KindUnused, checkpoint.KindEmbedding:
		case checkpoint.KindExpert:
			routed += n
		default:
			in.Active += n
		}
	}
	// Experts are equally large, so the share of the chosen ones is exact.
	in.Active += routed / int64(c.Experts) * int64(c.TopK)
	for _, k := range kinds {
		in.Kinds = append(in.Kinds, *k)
	}
	for _, d := range dtypes {
		in.DTypes = append(in.DTypes, *d)
	}
	slices.SortFunc(in.Kinds, func(a, b KindSize) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind))
	})
	slices.SortFunc(in.DTypes, func(a, b DTypeSize) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.DType, b.DType))
	})
	return in, nil
}

// kvFormat is how cached values are stored.
type kvFormat struct {
	name string
	elem int64 // bytes of a value
	// fp8 adds a 4-byte scale per group of 128 latent values and per indexer
	// key; rope values stay in BF16. Keys and values of GQA have no scales.
	fp8 bool
}

var kvFormats = []kvFormat{{name: "f32", elem: 4}, {name: "bf16", elem: 2}, {name: "fp8", elem: 1, fp8: true}}

// scaled returns the bytes of n values with their scales.
func (f kvFormat) scaled(n int) int64 {
	b := int64(n) * f.elem
	if f.fp8 {
		b += 4 * int64((n+127)/128)
	}
	return b
}

// wide returns the bytes of n values that are never narrower than BF16.
func (f kvFormat) wide(n int) int64 { return int64(n) * max(f.elem, 2) }

// kvCosts computes what one sequence caches, by format.
//
// Per layer and token MLA caches one latent and one rotated key shared by all
// heads, GQA a key and a value per KV head. An indexer caches one key per token,
// or one per pool of tokens. A linear-attention layer caches nothing per token:
// its state is a matrix of f32 per head, and the last inputs of three
// convolutions.
func kvCosts(c *checkpoint.Config) []KVCost {
	var out []KVCost
	for _, f := range kvFormats {
		k := KVCost{Format: f.name}
		pool := 1
		if c.Next != nil {
			pool = c.Next.KPool
		}
		var pooled int64 // bytes per complete pool
		for i := range c.Layers {
			switch {
			case c.LinearLayer(i):
				wide := c.Next.LinearHeads * c.Next.LinearHeadDim
				k.PerSequence += 4*int64(wide)*int64(c.Next.LinearHeadDim) + f.wide(3*wide*(c.Next.ConvKernel-1))
			case c.MLA():
				k.PerToken += f.scaled(c.KVLoraRank) + f.wide(c.QKRope)
			default:
				k.PerToken += 2 * int64(c.KVHeads) * int64(c.HeadDim) * f.elem
			}
			if c.IndexLayer(i) {
				pooled += f.scaled(c.Index.HeadDim)
			}
		}
		tokens := int64(c.MaxPositions)
		k.FullContext = k.PerSequence + tokens*k.PerToken + tokens/int64(pool)*pooled
		k.PerToken += (pooled + int64(pool) - 1) / int64(pool)
		out = append(out, k)
	}
	return out
}

// String is a table of the whole.
func (in *Inspection) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s: %d layers, %d MTP, %d experts of which %d per token\n", in.ModelType, in.Layers, in.MTPLayers, in.Experts, in.TopK)
	runs := "yes"
	if in.Refusal != nil {
		runs = "no: " + in.Refusal.Error()
	}
	fmt.Fprintf(w, "runs\t%s\n", runs)
	source := "headers read and checked against config.json"
	switch {
	case !in.Files:
		source = "no weight files; sizes follow from config.json"
	case !in.Checked:
		source = "weight files not read; sizes follow from config.json"
	}
	fmt.Fprintf(w, "files\t%s\n", source)
	fmt.Fprintf(w, "context\t%s tokens\n", group(int64(in.Context)))
	fmt.Fprintf(w, "parameters\t%s, active per token %s\n", group(in.Parameters), group(in.Active))
	fmt.Fprintf(w, "bytes\t%s (%s) in %s tensors\n", group(in.Bytes), human(in.Bytes), group(int64(in.Tensors)))
	w.Flush()

	b.WriteByte('\n')
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "kind\ttensors\tparameters\tbytes\t\n")
	for _, k := range in.Kinds {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", k.Kind, group(int64(k.Tensors)), group(k.Parameters), human(k.Bytes))
	}
	w.Flush()

	b.WriteByte('\n')
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "dtype\ttensors\tbytes\t\n")
	for _, d := range in.DTypes {
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", d.DType, group(int64(d.Tensors)), human(d.Bytes))
	}
	w.Flush()

	b.WriteByte('\n')
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "KV format\tbytes per token\tbytes per sequence\t%s tokens\t\n", group(int64(in.Context)))
	for _, k := range in.KV {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", k.Format, group(k.PerToken), group(k.PerSequence), human(k.FullContext))
	}
	w.Flush()
	return b.String()
}

// group writes an integer with a comma every three digits.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// human writes bytes in decimal units.
func human(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	x, i := float64(n), 0
	for x >= 999.95 && i < len(units)-1 {
		x, i = x/1000, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}
