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
