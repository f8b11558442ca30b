package checkpoint

import "iter"

// Kind groups tensors by what they are for, as an inventory reports them.
type Kind string

// The kinds of tensors. Everything of an MTP layer is KindMTP and everything of
// the vision tower KindVision, whatever it does there.
const (
	KindEmbedding Kind = "embedding"
	KindHead      Kind = "head"
	KindNorm      Kind = "norms"
	KindAttention Kind = "attention"
	KindLinear    Kind = "linear attention"
	KindIndexer   Kind = "indexer"
	KindHyper     Kind = "hyper-connections"
	KindDense     Kind = "dense mlp"
	KindRouter    Kind = "router"
	KindExpert    Kind = "experts"
	KindShared    Kind = "shared expert"
	KindMTP       Kind = "mtp"
	KindVision    Kind = "vision"
	KindUnused    Kind = "unused" // accepted in a checkpoint, read by nothing
)

// Layout is a vendor's way of storing a model.
type Layout int

// The layouts.
const (
	LayoutBF16 Layout = iota
	LayoutFP8         // linear weights in F8_E4M3: 128x128 blocks, per channel for the GLM-4.5 line
)

// An Entry is one tensor that a checkpoint in a layout has.
type Entry struct {
	Name  string
	Shape []int
	DType DType
	Kind  Kind
	Layer int  // -1 outside the layers
	Scale bool // the scale of the weight before it: bytes, but no parameters
	// Routed is true for a weight of a routed expert, of which TopK in Experts
	// are read per token.
	Routed bool
}

// Elements returns the number of values.
func (e Entry) Elements() int64 {
	n := int64(1)
	for _, d := range e.Shape {
		n *= int64(d)
	}
	return n
}

// Bytes returns the size of the values on disk.
func (e Entry) Bytes() int64 { return e.Elements() * int64(e.DType.Size()) }

// Layout returns the layout that quantization_config declares.
func (c *Config) Layout() Layout {
	if c.Quant.Scale == ScaleNone {
		return LayoutBF16
	}
	return LayoutFP8
}

// Inventory yields every tensor of a model in the vendor's layout, from the
// configuration alone, MTP layers and vision tower included. The scale of an
// FP8 weight follows its weight. Optional copies (see [Open]) are not in it.
func Inventory(c *Config, l Layout) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for w := range weights(c) {
			e := Entry{Name: w.name, Shape: w.shape, DType: BF16, Kind: w.kind, Layer: w.layer, Routed: w.routed}
			switch {
			case w.store == storeF32:
				e.DType = F32
			case l == LayoutFP8 && w.store == storeFP8:
				e.DType = F8
			}
			if !yield(e) {
				return
			}
			if e.DType != F8 {
				continue
			}
			e.DType, e.Scale = F32, true
			if c.vendorScale() == ScaleChannel {
				e.Name, e.Shape = w.name+scaleChannelSuffix, []int{w.shape[0], 1}
			} else {
				e.Name, e.Shape = w.name+scaleBlockSuffix, []int{ceilDiv(w.shape[0], Block), ceilDiv(w.shape[1], Block)}
			}
			if !yield(e) {
				return
			}
		}
	}
}

// What is appended to the name of an F8 tensor to name its scale.
const (
	scaleBlockSuffix   = "_scale_inv"
	scaleChannelSuffix = "_scale"
)

// vendorScale returns the scales of the vendor's FP8 layout: what the
// configuration declares, else what the family was published with.
func (c *Config) vendorScale() ScaleKind {
	switch {
	case c.Quant.Scale != ScaleNone:
		return c.Quant.Scale
	case c.Family == GLM4Moe:
		return ScaleChannel
	}
	return ScaleBlock128
}

// store says how the vendor stores a weight, and so what is accepted.
type store int

const (
	storeBF16   store = iota // norms, biases, embedding, router: never FP8
	storeLinear              // a linear weight that the vendor leaves in BF16; FP8 with a scale is accepted
	storeFP8                 // a linear weight that the vendor's FP8 layout quantises
	storeF32                 // values whose differences BF16 would erase; accepted in F32 only
)

// A weight is a tensor that the configuration asks for.
type weight struct {
	name   string
	shape  []int
	kind   Kind
	layer  int
	store  store
	routed bool
}

// weightCount estimates the number of weights from above, without making them.
func weightCount(c *Config) int {
	sparse := c.MTPLayers
	for _, s := range c.Sparse {
		if s {
			sparse++
		}
	}
	return 3*c.Experts*sparse + 64*(c.Layers+c.MTPLayers)
}
