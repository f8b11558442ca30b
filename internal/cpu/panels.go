package cpu

import (
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// panels are a packed weight: PanelRows rows after PanelRows rows.
type panels struct {
	format Format
	data   []byte
	size   int // bytes of a panel
}

// packedWeight returns the weight that a blob of m is: its rows are those of all
// matrices, each filled up to whole panels unless there is but one.
func packedWeight(name string, m matrices, blob []byte) *weight {
	rows := m.rows
	if m.count > 1 {
		rows = m.panels() * kernel.PanelRows
	}
	return &weight{
		View:   backend.View{Name: name, Rows: rows, Cols: m.cols},
		panels: &panels{m.format, blob, m.panelSize()},
	}
}

// from returns the panels from row n on, the first of its panel.
func (p *panels) from(n int) []byte { return p.data[n/kernel.PanelRows*p.size:] }

// row writes row n as f32.
func (p *panels) row(dst []float32, n int) {
	panel := p.from(n)[:p.size]
	if p.format == Int4 {
		kernel.UnpackInt4(dst, panel, n%kernel.PanelRows)
	} else {
		kernel.UnpackInt8(dst, panel, n%kernel.PanelRows)
	}
}

// codeChunk is how many bytes of activations pass by a tile's panels at a time:
// they stay in the second-level cache beside the tile.
const codeChunk = 128 << 10

// multiply fills a tile whose first row begins a panel. Whole panels are
// multiplied, each from its beginning to its end.
func (p *panels) multiply(t tile, l lines) {
	if p.size != l.codes.Groups*p.format.groupBytes() {
		panic("activations of another width")
	}
	chunk := max(4, codeChunk/(l.codes.Groups*kernel.Group)&^3)
	stride := t.stride()
	for c := 0; c < t.lines; c += chunk {
		n := min(chunk, t.lines-c)
		for r := 0; r < t.n1-t.n0; r += kernel.PanelRows {
			y, w := t.y[c*stride+r:], p.from(t.n0+r)
			if p.format == Int4 {
				kernel.MulInt4(y, stride, w, l.codes, l.first+c, n)
			} else {
				kernel.MulInt8(y, stride, w, l.codes, l.first+c, n)
			}
		}
	}
}
