package cpu_test

import (
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
)

// Every tensor of every family has the format that its kind asks for.
func TestFormatOf(t *testing.T) {
	names, err := golden.Names()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[checkpoint.Kind]int{}
	for _, name := range names {
		g, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		ck, err := checkpoint.Open(g.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		for e := range checkpoint.Inventory(&ck.Config, checkpoint.LayoutFP8) {
			for _, f := range []cpu.Format{cpu.AsStored, cpu.Int8, cpu.Int4} {
				want, ok := wanted(e, f)
				if !ok {
					continue
				}
				seen[e.Kind]++
				if have := cpu.FormatOf(e.Name, f); have != want {
					t.Errorf("%s in a model of %v: %v, want %v", e.Name, f, have, want)
				}
			}
		}
	}
	for _, k := range []checkpoint.Kind{
		checkpoint.KindEmbedding, checkpoint.KindHead, checkpoint.KindNorm, checkpoint.KindAttention, checkpoint.KindIndexer,
		checkpoint.KindDense, checkpoint.KindRouter, checkpoint.KindExpert, checkpoint.KindShared,
	} {
		if seen[k] == 0 {
			t.Errorf("no tensor of the kind %s", k)
		}
	}
}

// wanted returns the format of an inventory's entry, from its kind and shape.
func wanted(e checkpoint.Entry, f cpu.Format) (_ cpu.Format, ok bool) {
	matrix := len(e.Shape) == 2 && !e.Scale
	eight := min(f, cpu.Int8)
	switch e.Kind {
	case checkpoint.KindEmbedding, checkpoint.KindNorm, checkpoint.KindRouter:
		return cpu.AsStored, true
	case checkpoint.KindHead:
		return eight, true
	case checkpoint.KindIndexer:
		if !matrix || strings.Contains(e.Name, "weights_proj") {
			return cpu.AsStored, true
		}
		return eight, true
	case checkpoint.KindAttention:
		if !matrix {
			return cpu.AsStored, true
		}
		if strings.Contains(e.Name, "kv_a_proj") || strings.Contains(e.Name, "kv_b_proj") {
			return eight, true
		}
		return f, true
	case checkpoint.KindDense, checkpoint.KindExpert, checkpoint.KindShared:
		if !matrix {
			return cpu.AsStored, true
		}
		return f, true
	}
	return 0, false
}
