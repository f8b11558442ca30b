package backend

import "fmt"

// KVFormat is the element type of KV pages.
type KVFormat uint8

// The formats; rows are rounded to nearest even when they are written.
const (
	KVF32 KVFormat = iota + 1
	KVBF16
)

// Size returns the bytes of one element.
func (f KVFormat) Size() int {
	switch f {
	case KVF32:
		return 4
	case KVBF16:
		return 2
	}
	return 0
}

func (f KVFormat) String() string {
	switch f {
	case KVF32:
		return "f32"
	case KVBF16:
		return "bf16"
	}
	return fmt.Sprintf("KVFormat(%d)", uint8(f))
}

// PageSpec is the geometry of KV memory. A page holds PageSize positions of
// every plane; a plane is one kind of row of one layer, such as the latent row
// of layer 3.
type PageSpec struct {
	Pages    int
	PageSize int // positions
	Format   KVFormat
	Planes   []int // elements per position
}

// PageBytes returns the bytes that one page holds over all planes.
func (p PageSpec) PageBytes() int {
	n := 0
	for _, w := range p.Planes {
		n += w * p.PageSize * p.Format.Size()
	}
	return n
}

// Check reports a geometry that no backend can hold.
func (p PageSpec) Check() error {
	if p.Pages <= 0 || p.PageSize <= 0 || p.Format.Size() == 0 || len(p.Planes) == 0 {
		return fmt.Errorf("backend: page spec: %d pages of %d positions, %s, %d planes", p.Pages, p.PageSize, p.Format, len(p.Planes))
	}
	for i, w := range p.Planes {
		if w <= 0 {
			return fmt.Errorf("backend: page spec: plane %d is %d wide", i, w)
		}
	}
	return nil
}

// Pages is KV memory. Its methods take effect between steps.
//
// The bytes of a page are its planes in order, each [PageSize, width] in the
// KV format, little endian: what Export gives and Import takes, on any backend.
type Pages interface {
	Spec() PageSpec
	// SetTag puts a tag on a page; a sequence whose step expects another one
	// there fails before it reads or writes anything.
	SetTag(page int, tag uint64)
	// Scrub zeroes pages and clears their tags.
	Scrub(pages ...int)
	// Copy copies every plane of one page; the tag stays the target's own.
	Copy(dst, src int)
	// Export appends the bytes of a page.
	Export(dst []byte, page int) []byte
	// Import replaces the bytes of a page.
	Import(page int, data []byte) error
	// Sum returns a checksum of the page's bytes: FNV-1a, 64 bits, of Export.
	Sum(page int) uint64
	// Close frees the memory. Idempotent.
	Close() error
}
