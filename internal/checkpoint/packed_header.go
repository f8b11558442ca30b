package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A file of packed weights is, little-endian,
//
//	 0   8 bytes  "cofrpack"
//	 8   u32      version of this layout, 1
//	12   u32      n, the number of blobs
//	16   u64      bytes of the header, its checksum included
//	24   u64      bytes of the file
//	32   text     fingerprint of the weights
//	     text     format
//	     u32      version of the format
//	     text     layout of the instruction set
//	n times       text name, u64 offset, u64 size, u32 checksum
//	     u32      checksum of everything before it
//	              zeros up to a multiple of 64, blob; zeros, blob; ... end of the file
//
// where a text is a u16 length and that many bytes of UTF-8, and a checksum is
// CRC-32C, which processors compute as fast as they read. Offsets follow from
// sizes and are stored all the same, so that a header can be read with a dump in
// hand.
const (
	packedMagic   = "cofrpack"
	packedVersion = 1
	packedFixed   = 32
	packedAlign   = 64 // a cache line, and the widest load of any processor

	packedMinEntry = 2 + 1 + 8 + 8 + 4
	maxPackedName  = 1 << 10
	maxPackedBlobs = maxTensors
	maxPackedSize  = 1 << 50
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packedBlob is a blob and its place in the file.
type packedBlob struct {
	Blob
	offset int64
	sum    uint32
}

type packedHeader struct {
	key    PackedKey
	blobs  []packedBlob
	byName map[string]*packedBlob
	data   int64 // offset of the first blob
	size   int64 // of the file
}

// PackedMissError says why a file is not the one that was asked for. It is nobody's
// fault: the file is replaced.
type PackedMissError struct {
	File       string
	Field      string // "file", "version", "weights", "format", "format version", "layout"
	Want, Have string
}

func (e *PackedMissError) Error() string {
	return fmt.Sprintf("packed weights: %s: %s: want %s, have %s", e.File, e.Field, e.Want, e.Have)
}

// newPackedHeader lays blobs out one after another.
func newPackedHeader(key PackedKey, blobs []Blob) (*packedHeader, error) {
	h := &packedHeader{key: key, blobs: make([]packedBlob, len(blobs)), byName: make(map[string]*packedBlob, len(blobs))}
	for i, b := range blobs {
		if b.Name == "" || len(b.Name) > maxPackedName || !utf8.ValidString(b.Name) || b.Size <= 0 || h.byName[b.Name] != nil {
			return nil, fmt.Errorf("checkpoint: packed weights: blob %d, %q of %d bytes: want a name of its own and a size", i, b.Name, b.Size)
		}
		h.blobs[i].Blob = b
		h.byName[b.Name] = &h.blobs[i]
	}
	if len(blobs) == 0 || len(blobs) > maxPackedBlobs {
		return nil, fmt.Errorf("checkpoint: packed weights: %d blobs", len(blobs))
	}
	end := int64(len(h.encode()))
	for i := range h.blobs {
		b := &h.blobs[i]
		b.offset = packedCeil(end)
		if b.Size > maxPackedSize-b.offset {
			return nil, fmt.Errorf("checkpoint: packed weights: more than %d bytes", int64(maxPackedSize))
		}
		end = b.offset + b.Size
	}
	h.data, h.size = h.blobs[0].offset, end
	return h, nil
}

func packedCeil(n int64) int64 { return (n + packedAlign - 1) / packedAlign * packedAlign }

// encode returns the bytes of the header.
func (h *packedHeader) encode() []byte {
	le := binary.LittleEndian
	b := []byte(packedMagic)
	b = le.AppendUint32(b, packedVersion)
	b = le.AppendUint32(b, uint32(len(h.blobs)))
	b = le.AppendUint64(b, 0) // set below
	b = le.AppendUint64(b, uint64(h.size))
	text := func(s string) { b = append(le.AppendUint16(b, uint16(len(s))), s...) }
	text(h.key.Weights)
	text(h.key.Format)
	b = le.AppendUint32(b, uint32(h.key.Version))
	text(h.key.Layout)
	for _, x := range h.blobs {
		text(x.Name)
		b = le.AppendUint64(b, uint64(x.offset))
		b = le.AppendUint64(b, uint64(x.Size))
		b = le.AppendUint32(b, x.sum)
	}
	le.PutUint64(b[16:], uint64(len(b)+4))
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// packedHeaderLen reads the fixed part of a header and returns how long all of it
// is. size is the file's.
func packedHeaderLen(file string, fixed []byte, size int64) (int64, error) {
	fault := func(offset int64, want, have string) error {
		return &CheckpointError{File: file, Offset: offset, Want: want, Have: have}
	}
	if len(fixed) < packedFixed {
		return 0, fault(0, fmt.Sprintf("a header of at least %d bytes", packedFixed), fmt.Sprintf("a file of %d bytes", len(fixed)))
	}
	le := binary.LittleEndian
	if string(fixed[:8]) != packedMagic {
		return 0, fault(0, strconv.Quote(packedMagic), strconv.Quote(string(fixed[:8])))
	}
	if v := le.Uint32(fixed[8:]); v != packedVersion {
		return 0, &PackedMissError{File: file, Field: "version", Want: strconv.Itoa(packedVersion), Have: fmt.Sprint(v)}
	}
	if n := le.Uint64(fixed[24:]); n != uint64(size) {
		return 0, fault(24, fmt.Sprintf("a file of %d bytes", n), fmt.Sprint(size))
	}
	n := le.Uint64(fixed[16:])
	if limit := uint64(min(size, maxHeaderBytes)); n < packedFixed+4 || n > limit {
		return 0, fault(16, fmt.Sprintf("a header of %d to %d bytes", packedFixed+4, limit), fmt.Sprint(n))
	}
	count := uint64(le.Uint32(fixed[12:]))
	if limit := min((n-packedFixed)/packedMinEntry, maxPackedBlobs); count < 1 || count > limit {
		return 0, fault(12, fmt.Sprintf("1 to %d blobs in a header of %d bytes", limit, n), fmt.Sprint(count))
	}
	return int64(n), nil
}

// parsePacked reads a header whose fixed part packedHeaderLen accepts.
func parsePacked(file string, header []byte, size int64) (*packedHeader, error) {
	le := binary.LittleEndian
	body := header[:len(header)-4]
	if want, have := le.Uint32(header[len(body):]), crc32.Checksum(body, castagnoli); want != have {
		return nil, &CheckpointError{
			File: file, Offset: int64(len(body)), Want: fmt.Sprintf("a header with checksum %#08x", want), Have: fmt.Sprintf("%#08x", have),
		}
	}
	d := packedDecoder{file: file, b: body, at: packedFixed}
	h := &packedHeader{size: size}
	h.key.Weights = d.text("fingerprint")
	h.key.Format = d.text("format")
	h.key.Version = int(int32(d.number("format version", 4, math.MaxInt32)))
	h.key.Layout = d.text("layout")
	h.blobs = make([]packedBlob, le.Uint32(header[12:]))
	h.byName = make(map[string]*packedBlob, len(h.blobs))
	end := int64(len(header))
	for i := range h.blobs {
		if d.err != nil {
			return nil, d.err
		}
		h.blob(&d, i, &end)
	}
	if d.err == nil && d.at != len(body) {
		d.fail(d.at, fmt.Sprintf("the header's checksum after %d blobs", len(h.blobs)), fmt.Sprintf("%d more bytes", len(body)-d.at))
	}
	if d.err == nil && end != size {
		d.fail(24, fmt.Sprintf("a file of %d bytes, the end of the last blob", end), fmt.Sprint(size))
	}
	if d.err != nil {
		return nil, d.err
	}
	h.data = h.blobs[0].offset
	return h, nil
}

// blob reads one entry of the table. end is where the blob before it ends.
func (h *packedHeader) blob(d *packedDecoder, i int, end *int64) {
	b := &h.blobs[i]
	at := d.at
	b.Name = d.text("name")
	d.blob = b.Name
	if d.err == nil && (b.Name == "" || h.byName[b.Name] != nil) {
		d.fail(at, "a name of its own", strconv.Quote(b.Name))
	}
	h.byName[b.Name] = b
	at = d.at
	b.offset = d.number("offset", 8, math.MaxInt64)
	if want := packedCeil(*end); d.err == nil && b.offset != want {
		d.fail(at, fmt.Sprintf("offset %d", want), fmt.Sprint(b.offset))
	}
	at = d.at
	b.Size = d.number("size", 8, math.MaxInt64)
	if limit := h.size - b.offset; d.err == nil && (b.Size < 1 || b.Size > limit) {
		d.fail(at, fmt.Sprintf("a size of 1 to %d", max(limit, 0)), fmt.Sprint(b.Size))
	}
	b.sum = uint32(d.number("checksum", 4, math.MaxUint32))
	*end = b.offset + b.Size
}

// packedDecoder reads fields; the first error sticks.
type packedDecoder struct {
	file, blob string
	b          []byte
	at         int
	err        error
}

func (d *packedDecoder) fail(at int, want, have string) {
	d.err = &CheckpointError{File: d.file, Tensor: d.blob, Offset: int64(at), Want: want, Have: have}
}

// take returns n bytes.
func (d *packedDecoder) take(field string, n int) []byte {
	if d.err == nil && n > len(d.b)-d.at {
		d.fail(d.at, fmt.Sprintf("%d bytes of a blob's %s", n, field), fmt.Sprintf("%d to the end of the header", len(d.b)-d.at))
	}
	if d.err != nil {
		return make([]byte, n)
	}
	d.at += n
	return d.b[d.at-n : d.at]
}

func (d *packedDecoder) number(field string, width int, limit uint64) int64 {
	var wide [8]byte
	at := d.at
	copy(wide[:], d.take(field, width))
	n := binary.LittleEndian.Uint64(wide[:])
	if d.err == nil && n > limit {
		d.fail(at, fmt.Sprintf("a %s of at most %d", field, limit), fmt.Sprint(n))
		return 0
	}
	return int64(n)
}

func (d *packedDecoder) text(field string) string {
	at := d.at
	n := int(d.number("length of a "+field, 2, math.MaxUint16))
	if d.err == nil && n > maxPackedName {
		d.fail(at, fmt.Sprintf("a %s of at most %d bytes", field, maxPackedName), fmt.Sprint(n))
		return ""
	}
	s := string(d.take(field, n))
	if d.err == nil && !utf8.ValidString(s) {
		d.fail(at, "a "+field+" in UTF-8", strconv.Quote(s))
	}
	return s
}

// hold checks a file's header against the one that is wanted and takes over its
// checksums and the order of its blobs.
func (h *packedHeader) hold(file string, have *packedHeader) error {
	for _, f := range []struct{ field, want, have string }{
		{"weights", h.key.Weights, have.key.Weights},
		{"format", h.key.Format, have.key.Format},
		{"format version", strconv.Itoa(h.key.Version), strconv.Itoa(have.key.Version)},
		{"layout", h.key.Layout, have.key.Layout},
	} {
		if f.want != f.have {
			return &PackedMissError{File: file, Field: f.field, Want: strconv.Quote(f.want), Have: strconv.Quote(f.have)}
		}
	}
	for _, b := range h.blobs {
		x := have.byName[b.Name]
		if x == nil {
			return &CheckpointError{File: file, Tensor: b.Name, Offset: -1, Want: fmt.Sprintf("a blob of %d bytes", b.Size), Have: "absent"}
		}
		if x.Size != b.Size {
			return &CheckpointError{File: file, Tensor: b.Name, Offset: x.offset, Want: fmt.Sprintf("%d bytes", b.Size), Have: fmt.Sprint(x.Size)}
		}
	}
	if len(have.blobs) == len(h.blobs) {
		return nil
	}
	i := slices.IndexFunc(have.blobs, func(b packedBlob) bool { return h.byName[b.Name] == nil })
	x := have.blobs[i]
	return &CheckpointError{File: file, Tensor: x.Name, Offset: x.offset, Want: fmt.Sprintf("%d blobs", len(h.blobs)), Have: "another"}
}
