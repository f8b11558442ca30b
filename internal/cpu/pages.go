package cpu

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// pages is KV memory: every page contiguous, its planes in order, in the very
// bytes that Export gives.
type pages struct {
	spec   backend.PageSpec
	region *offheap.Region
	data   []byte
	floats []float32 // the same memory, when the format is f32
	bytes  int       // of one page
	offset []int     // of each plane in a page, in elements
	tags   []uint64
}

// NewPages implements backend.Backend.
func (b *Backend) NewPages(spec backend.PageSpec) (backend.Pages, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	p := &pages{spec: spec, bytes: spec.PageBytes(), tags: make([]uint64, spec.Pages)}
	at := 0
	for _, w := range spec.Planes {
		p.offset = append(p.offset, at)
		at += w * spec.PageSize
	}
	region, err := offheap.Alloc(p.bytes * spec.Pages)
	if err != nil {
		return nil, fmt.Errorf("cpu: %d pages of %d bytes: %w", spec.Pages, p.bytes, err)
	}
	p.region, p.data = region, region.Bytes()
	if spec.Format == backend.KVF32 {
		p.floats = region.Float32s()
	}
	return p, nil
}

func (p *pages) Spec() backend.PageSpec { return p.spec }

func (p *pages) SetTag(page int, tag uint64) { p.tags[page] = tag }

func (p *pages) page(i int) []byte { return p.data[i*p.bytes : (i+1)*p.bytes] }

func (p *pages) Scrub(list ...int) {
	for _, i := range list {
		clear(p.page(i))
		p.tags[i] = 0
	}
}

func (p *pages) Copy(dst, src int) { copy(p.page(dst), p.page(src)) }

func (p *pages) Export(dst []byte, page int) []byte { return append(dst, p.page(page)...) }

func (p *pages) Import(page int, data []byte) error {
	if page < 0 || page >= p.spec.Pages || len(data) != p.bytes {
		return fmt.Errorf("cpu: import of %d bytes into page %d, want %d bytes into one of %d pages", len(data), page, p.bytes, p.spec.Pages)
	}
	copy(p.page(page), data)
	return nil
}

func (p *pages) Sum(page int) uint64 {
	h := fnv.New64a()
	h.Write(p.page(page))
	return h.Sum64()
}

func (p *pages) Close() error {
	p.data, p.floats = nil, nil
	return p.region.Close()
}

// tagsMatch reports whether every page that sequence q reaches carries the tag
// that the step expects, and every page that it writes carries its own.
func (p *pages) tagsMatch(s *backend.Step, q int) bool {
	from, to := s.Writes(q)
	for pos := from; pos < to; pos = (pos/p.spec.PageSize + 1) * p.spec.PageSize {
		if s.PageTag[q*s.Stride+pos/p.spec.PageSize] != s.Tag[q] {
			return false
		}
	}
	n := (int(s.KVLen[q]) + p.spec.PageSize - 1) / p.spec.PageSize
	for i := q * s.Stride; i < q*s.Stride+n; i++ {
		if p.tags[s.Pages[i]] != s.PageTag[i] {
			return false
		}
	}
	return true
}

// at returns the element offset of the plane row of a position.
func (p *pages) at(s *backend.Step, seq int32, pos, plane int) int {
	page := int(s.Pages[int(seq)*s.Stride+pos/p.spec.PageSize])
	width := p.spec.Planes[plane]
	return page*(p.bytes/p.spec.Format.Size()) + p.offset[plane] + pos%p.spec.PageSize*width
}

// write stores a row, rounding to nearest even.
func (p *pages) write(s *backend.Step, seq int32, pos, plane int, row []float32) {
	at := p.at(s, seq, pos, plane)
	if p.spec.Format == backend.KVF32 {
		copy(p.floats[at:at+len(row)], row)
		return
	}
	out := p.data[2*at : 2*(at+len(row))]
	for i, x := range row {
		binary.LittleEndian.PutUint16(out[2*i:], toBF16(x))
	}
}

// read copies elements of a row, from off on, to dst.
func (p *pages) read(dst []float32, s *backend.Step, seq int32, pos, plane, off int) {
	at := p.at(s, seq, pos, plane) + off
	if p.spec.Format == backend.KVF32 {
		copy(dst, p.floats[at:at+len(dst)])
		return
	}
	kernel.DecodeBF16(dst, p.data[2*at:2*(at+len(dst))])
}

// toBF16 rounds to nearest, ties to even; a NaN stays one.
func toBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
