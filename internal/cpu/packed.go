package cpu

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// A blob is a weight in a format of this package, for the kernels and for a cache
// on disk: panels of PanelRows rows, panel after panel, each group by group along
// k. Rows and columns that fill up a panel are zeros.
//
// The blob of kv_b holds, head after head, W_uk transposed, [latent, nope], and
// behind all of these, head after head, W_uv, [v, latent]; both are int8, in whole
// panels by head.

// BlobAlign is what the address of a blob is a multiple of: a cache line.
const BlobAlign = 64

// PackedSize returns the bytes of the blob of a weight [rows, cols]; 0 for
// AsStored, which has none.
func PackedSize(rows, cols int, f Format) int {
	return panelsOf(rows) * groupsOf(cols) * f.groupBytes()
}

// PackedKVBSize returns the bytes of the blob of a kv_b, [heads*(nope+vdim), latent].
func PackedKVBSize(heads, nope, vdim, latent int) int {
	return heads * (PackedSize(latent, nope, Int8) + PackedSize(vdim, latent, Int8))
}

func panelsOf(rows int) int { return (rows + kernel.PanelRows - 1) / kernel.PanelRows }
func groupsOf(cols int) int { return (cols + kernel.Group - 1) / kernel.Group }

// BlobError reports bytes that are not the blob of a weight.
type BlobError struct {
	Name       string // of the weight
	Field      string // "format", "shape", "bytes", "address"
	Want, Have string
}

func (e *BlobError) Error() string {
	return fmt.Sprintf("cpu: packed weight %s: %s: have %s, want %s", e.Name, e.Field, e.Have, e.Want)
}

// matrices are some matrices of one shape and format, one after another in a blob.
type matrices struct {
	count, rows, cols int
	format            Format
}

func (m matrices) panels() int    { return m.count * panelsOf(m.rows) }
func (m matrices) panelSize() int { return groupsOf(m.cols) * m.format.groupBytes() }
func (m matrices) size() int      { return m.panels() * m.panelSize() }

// A Packing is a stored weight on its way into a blob.
type Packing struct {
	from        *weight
	first, then matrices // then: W_uv
	heads       int      // 0 unless the weight is kv_b
	nope, vdim  int
}

// NewPacking prepares the conversion of a weight. v must stay readable.
func NewPacking(v backend.View, f Format) (*Packing, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	if f.groupBytes() == 0 {
		return nil, &BlobError{v.Name, "format", "int8 or int4", f.String()}
	}
	return &Packing{from: newWeight(v), first: matrices{1, v.Rows, v.Cols, f}}, nil
}

// NewKVBPacking prepares the conversion of a kv_b; the arguments are those of
// LoadKVB.
func NewKVBPacking(v backend.View, heads, nope, vdim int) (*Packing, error) {
	if err := checkKVB(v, heads, nope, vdim); err != nil {
		return nil, err
	}
	return &Packing{
		from: newWeight(v), heads: heads, nope: nope, vdim: vdim,
		first: matrices{heads, v.Cols, nope, Int8}, then: matrices{heads, vdim, v.Cols, Int8},
	}, nil
}

// Size returns the bytes of the blob.
func (p *Packing) Size() int { return p.first.size() + p.then.size() }

// Pack writes the blob of p to dst, which is exactly as large, with every worker
// of the backend. Besides dst it takes 32 bytes a column and worker. No step may
// run meanwhile.
//
// The end of ctx ends it with the context's error, and a lost page of a mapped
// file with a *backend.FaultError; dst then has no defined content.
func (b *Backend) Pack(ctx context.Context, dst []byte, p *Packing) error {
	switch {
	case b.closed:
		return errClosed
	case b.busy:
		return errBusy
	case len(dst) != p.Size():
		return &BlobError{p.from.Name, "bytes", fmt.Sprint(p.Size()), fmt.Sprint(len(dst))}
	}
	var abort atomic.Bool
	defer context.AfterFunc(ctx, func() { abort.Store(true) })()
	b.pool.abort, b.pool.op = &abort, "load "+p.from.Name
	b.pool.fault.Store(nil)
	b.pool.run(p.first.panels()+p.then.panels(), &packPhase{p, dst})
	b.pool.abort = nil
	if err := b.pool.fault.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// packPhase packs a panel a task.
type packPhase struct {
	*Packing
	dst []byte
}

func (p *packPhase) task(k *worker, i int) {
	m, dst, then := p.first, p.dst, false
	if i >= m.panels() {
		i, dst = i-m.panels(), dst[m.size():]
		m, then = p.then, true
	}
	matrix, r0 := i/panelsOf(m.rows), i%panelsOf(m.rows)*kernel.PanelRows
	n := min(kernel.PanelRows, m.rows-r0)
	block := grow(&k.weights, n*m.cols)
	rows := k.panel[:n]
	for r := range rows {
		rows[r] = block[r*m.cols:][:m.cols]
	}
	switch {
	case p.heads == 0:
		p.copyRows(rows, r0)
	case then:
		p.copyRows(rows, matrix*(p.nope+p.vdim)+p.nope+r0)
	default:
		p.copyColumns(rows, matrix*(p.nope+p.vdim), r0)
	}
	dst = dst[i*m.panelSize():][:0:m.panelSize()]
	if m.format == Int4 {
		kernel.PackInt4(dst, rows)
	} else {
		kernel.PackInt8(dst, rows)
	}
}

// copyRows reads stored rows from n on.
func (p *Packing) copyRows(dst [][]float32, n int) {
	for r, row := range dst {
		p.from.decode(row, n+r, 0)
	}
}

// copyColumns reads stored columns from k0 on, of as many rows from n on as dst is
// wide: rows of the transposed matrix.
func (p *Packing) copyColumns(dst [][]float32, n, k0 int) {
	var part [kernel.PanelRows]float32
	for i := range dst[0] {
		p.from.decode(part[:len(dst)], n+i, k0)
		for r := range dst {
			dst[r][i] = part[r]
		}
	}
}

// LoadPacked makes a weight [rows, cols] of its blob, which must stay readable and
// unchanged until Close. A blob of another size or at an unaligned address is a
// *BlobError; name is for errors.
func (b *Backend) LoadPacked(name string, rows, cols int, f Format, blob []byte) (backend.Weight, error) {
	m := matrices{1, rows, cols, f}
	switch {
	case f.groupBytes() == 0:
		return 0, &BlobError{name, "format", "int8 or int4", f.String()}
	case rows <= 0 || cols <= 0:
		return 0, &BlobError{name, "shape", "at least [1 1]", fmt.Sprintf("[%d %d]", rows, cols)}
	}
	if err := checkBlob(name, m.size(), blob); err != nil {
		return 0, err
	}
	return b.addWeight(packedWeight(name, m, blob)), nil
}

// LoadPackedKVB is LoadPacked for the blob of a kv_b, [heads*(nope+vdim), latent].
func (b *Backend) LoadPackedKVB(name string, heads, nope, vdim, latent int, blob []byte) (backend.Weight, error) {
	if heads <= 0 || nope <= 0 || vdim <= 0 || latent <= 0 {
		return 0, &BlobError{name, "shape", "heads, nope, v and latent of at least 1", fmt.Sprintf("%d, %d, %d, %d", heads, nope, vdim, latent)}
	}
	if err := checkBlob(name, PackedKVBSize(heads, nope, vdim, latent), blob); err != nil {
		return 0, err
	}
	ukT, uv := matrices{heads, latent, nope, Int8}, matrices{heads, vdim, latent, Int8}
	return b.addWeight(&weight{
		View: backend.View{Name: name, Rows: heads * (nope + vdim), Cols: latent},
		heads: &latentUp{
			ukT: packedWeight(name, ukT, blob[:ukT.size()]), ukStep: roundUp(latent, kernel.PanelRows),
			uv: packedWeight(name, uv, blob[ukT.size():]), uvStep: roundUp(vdim, kernel.PanelRows),
		},
	}), nil
}

func checkBlob(name string, size int, blob []byte) error {
	if len(blob) != size {
		return &BlobError{name, "bytes", fmt.Sprint(size), fmt.Sprint(len(blob))}
	}
	if at := uintptr(unsafe.Pointer(&blob[0])) % BlobAlign; at != 0 {
		return &BlobError{name, "address", fmt.Sprintf("a multiple of %d", BlobAlign), fmt.Sprintf("%d beyond one", at)}
	}
	return nil
}
