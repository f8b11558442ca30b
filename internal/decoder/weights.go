package decoder

import (
	"fmt"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

// weight loads a tensor by its published name.
func (g *builder) weight(name string) backend.Weight {
	v := g.view(name)
	if g.err != nil {
		return 0
	}
	var w backend.Weight
	w, g.err = g.b.LoadWeight(v)
	g.loaded(v)
	return w
}

func (g *builder) loaded(v backend.View) {
	if g.err == nil && g.o.OnWeight != nil {
		g.err = g.o.OnWeight(len(v.Data))
	}
}

// layer loads a tensor of one layer.
func (g *builder) layer(i int, name string) backend.Weight {
	return g.weight(fmt.Sprintf("model.layers.%d.%s", i, name))
}

// kvb loads kv_b_proj of one layer, which the backend splits by head.
func (g *builder) kvb(i int) backend.Weight {
	v := g.view(fmt.Sprintf("model.layers.%d.self_attn.kv_b_proj.weight", i))
	if g.err != nil {
		return 0
	}
	var w backend.Weight
	w, g.err = g.b.LoadKVB(v, g.c.Heads, g.c.QKNope, g.c.VDim)
	g.loaded(v)
	return w
}

func (g *builder) view(name string) backend.View {
	if g.err != nil {
		return backend.View{}
	}
	t, err := g.o.Tensor(name)
	if err != nil {
		g.err = err
		return backend.View{}
	}
	return View(t)
}

// View returns a tensor as backends take it.
func View(t checkpoint.Tensor) backend.View {
	v := backend.View{Name: t.Name, Rows: 1, Cols: t.Shape[len(t.Shape)-1], DType: dtype(t.DType), Data: t.Data}
	if len(t.Shape) == 2 {
		v.Rows = t.Shape[0]
	}
	if t.Scale.Kind != checkpoint.ScaleNone {
		v.Scales = backend.Scales{Rows: t.Scale.Shape[0], Cols: 1, DType: dtype(t.Scale.DType), Data: t.Scale.Data}
		if len(t.Scale.Shape) == 2 {
			v.Scales.Cols = t.Scale.Shape[1]
		}
	}
	return v
}

func dtype(t checkpoint.DType) backend.DType {
	switch t {
	case checkpoint.F32:
		return backend.F32
	case checkpoint.F16:
		return backend.F16
	case checkpoint.BF16:
		return backend.BF16
	case checkpoint.F8:
		return backend.F8E4M3
	}
	return 0 // refused by View.Check
}
