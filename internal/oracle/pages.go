package oracle

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// Pages is KV memory, each page kept as the bytes that Export gives.
type Pages struct {
	spec backend.PageSpec
	data [][]byte
	tags []uint64
}

// NewPages implements [backend.Backend].
func (o *Oracle) NewPages(spec backend.PageSpec) (backend.Pages, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	p := &Pages{spec: spec, data: make([][]byte, spec.Pages), tags: make([]uint64, spec.Pages)}
	for i := range p.data {
		p.data[i] = make([]byte, spec.PageBytes())
	}
	return p, nil
}

// Spec implements [backend.Pages].
func (p *Pages) Spec() backend.PageSpec { return p.spec }

// SetTag implements [backend.Pages].
func (p *Pages) SetTag(page int, tag uint64) { p.tags[page] = tag }

// Scrub implements [backend.Pages].
func (p *Pages) Scrub(pages ...int) {
	for _, page := range pages {
		clear(p.data[page])
		p.tags[page] = 0
	}
}

// Copy implements [backend.Pages].
func (p *Pages) Copy(dst, src int) { copy(p.data[dst], p.data[src]) }

// Export implements [backend.Pages].
func (p *Pages) Export(dst []byte, page int) []byte { return append(dst, p.data[page]...) }

// Import implements [backend.Pages].
func (p *Pages) Import(page int, data []byte) error {
	if page < 0 || page >= len(p.data) {
		return fmt.Errorf("oracle: import of page %d, want one in [0, %d)", page, len(p.data))
	}
	if want := p.spec.PageBytes(); len(data) != want {
		return fmt.Errorf("oracle: import of page %d: %d bytes, want %d", page, len(data), want)
	}
	copy(p.data[page], data)
	return nil
}

// Sum implements [backend.Pages].
func (p *Pages) Sum(page int) uint64 {
	h := fnv.New64a()
	h.Write(p.data[page])
	return h.Sum64()
}

// Close implements [backend.Pages].
func (p *Pages) Close() error {
	p.data, p.tags = nil, nil
	return nil
}

// slot returns the bytes of one position of one plane on a page.
func (p *Pages) slot(page, plane, offset int) []byte {
	size := p.spec.Format.Size()
	start := 0
	for _, w := range p.spec.Planes[:plane] {
		start += w * p.spec.PageSize * size
	}
	width := p.spec.Planes[plane] * size
	start += offset * width
	return p.data[page][start : start+width]
}

// key reads the row that a sequence of the step wrote at a position of a plane.
func (p *pass) key(seq, plane, pos int) []float64 {
	b := p.slot(seq, plane, pos)
	row := make([]float64, p.pages.spec.Planes[plane])
	for i := range row {
		if p.pages.spec.Format == backend.KVBF16 {
			row[i] = float64(decodeBF16(binary.LittleEndian.Uint16(b[2*i:])))
		} else {
			row[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		}
	}
	return row
}

// setKey writes a row's plane values, rounded to f32 and then to the KV format.
func (p *pass) setKey(r, plane int, row []float64) {
	if want := p.pages.spec.Planes[plane]; len(row) != want {
		panic(fmt.Sprintf("plane %d is %d wide, the row %d", plane, want, len(row)))
	}
	b := p.slot(int(p.step.Seq[r]), plane, int(p.step.Pos[r]))
	for i, v := range row {
		if p.pages.spec.Format == backend.KVBF16 {
			binary.LittleEndian.PutUint16(b[2*i:], encodeBF16(float32(v)))
		} else {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(v)))
		}
	}
}

// slot follows the step's page table: position pos lies on page pos/PageSize of
// the sequence's list.
func (p *pass) slot(seq, plane, pos int) []byte {
	size := p.pages.spec.PageSize
	page := p.step.Pages[seq*p.step.Stride+pos/size]
	return p.pages.slot(int(page), plane, pos%size)
}
