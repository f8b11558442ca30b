package cpu

import (
	"fmt"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// Format is what the elements of a weight are computed as.
type Format uint8

// The formats. Int8 and Int4 have a scale per group of 32 elements along k and
// multiply activations that are rounded to 8 bits in the same groups.
const (
	AsStored Format = iota
	Int8
	Int4
)

func (f Format) String() string {
	switch f {
	case AsStored:
		return "as stored"
	case Int8:
		return "int8"
	case Int4:
		return "int4"
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// FormatVersion numbers what a blob's bytes mean and how they are made of a
// weight. It changes with the layout of panels and with the choice of scales, so
// that no blob outlives the code that understands it.
const FormatVersion = 2

// groupBytes is the size of a panel's group.
func (f Format) groupBytes() int {
	switch f {
	case Int8:
		return kernel.Int8Bytes
	case Int4:
		return kernel.Int4Bytes
	}
	return 0
}

// formats says what each weight matrix of a model becomes, by the end of its name
// without ".weight". What is not listed stays as stored: norms, biases and the
// router's correction bias.
//
// The router and the indexer's head weights decide between near ties, and a choice
// that turns out otherwise costs more than their few bytes. The indexer's
// projections, kv_a and kv_b make every key and value, and are a twentieth of the
// weights: their error is read again with each later token, so they stay at 8 bits.
// So does the head, whose error goes straight into the logits.
// A token reads one row of the embedding: nothing is saved by rounding it.
var formats = []struct {
	name       string
	int8, int4 Format
}{
	{"embed_tokens", AsStored, AsStored},
	{"lm_head", Int8, Int8},

	{"self_attn.q_a_proj", Int8, Int4},
	{"self_attn.q_b_proj", Int8, Int4},
	{"self_attn.kv_a_proj_with_mqa", Int8, Int8},
	{"self_attn.kv_b_proj", Int8, Int8},
	{"self_attn.q_proj", Int8, Int4},
	{"self_attn.k_proj", Int8, Int4},
	{"self_attn.v_proj", Int8, Int4},
	{"self_attn.o_proj", Int8, Int4},

	{"self_attn.indexer.wq_b", Int8, Int8},
	{"self_attn.indexer.wk", Int8, Int8},
	{"self_attn.indexer.weights_proj", AsStored, AsStored},

	{"mlp.gate", AsStored, AsStored},
	{".gate_proj", Int8, Int4}, // of dense layers, routed and shared experts
	{".up_proj", Int8, Int4},
	{".down_proj", Int8, Int4},
}

// FormatOf returns what the tensor of a published name is computed as in a model
// whose weights are in format f.
func FormatOf(name string, f Format) Format {
	stem, ok := strings.CutSuffix(name, ".weight")
	if !ok || f == AsStored {
		return AsStored
	}
	for _, rule := range formats {
		if !strings.HasSuffix(stem, rule.name) {
			continue
		}
		if f == Int8 {
			return rule.int8
		}
		return rule.int4
	}
	return AsStored
}
