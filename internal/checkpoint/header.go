package checkpoint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// A safetensors file is
//
//	8 bytes   N, little-endian
//	N bytes   JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...}
//	the rest  data; offsets count from its first byte
//
// and the tensors tile the data: no gap, no overlap, nothing after the last.

// headerPrefix is the size of the length field.
const headerPrefix = 8

// stored is one tensor of a file.
type stored struct {
	name       string
	shard      int // index into the checkpoint's shards
	dtype      DType
	shape      []int
	begin, end int64 // bytes of the file

	scale *stored // of an F8 tensor, once checked
	kind  ScaleKind
	used  bool // the configuration accounts for it
}

// headerLen reads and checks the length field of a file of that size.
func headerLen(file string, prefix []byte, size int64) (int64, error) {
	if size < headerPrefix || len(prefix) < headerPrefix {
		return 0, &CheckpointError{File: file, Offset: 0, Want: "an 8-byte header length", Have: fmt.Sprintf("a file of %d bytes", size)}
	}
	n := binary.LittleEndian.Uint64(prefix)
	if limit := uint64(min(size-headerPrefix, maxHeaderBytes)); n < 2 || n > limit {
		return 0, &CheckpointError{
			File: file, Offset: 0, Want: fmt.Sprintf("a header of 2 to %d bytes", limit), Have: fmt.Sprintf("%d", n),
		}
	}
	return int64(n), nil
}

// parseHeader reads the JSON of a header and checks that its tensors tile the
// data. size is the file's.
func parseHeader(file string, header []byte, size int64) ([]stored, error) {
	base := headerPrefix + int64(len(header))
	if header[0] != '{' {
		return nil, &CheckpointError{File: file, Offset: headerPrefix, Want: `a header that starts with "{"`, Have: fmt.Sprintf("byte %#02x", header[0])}
	}
	s, e := newJSONScanner(header)
	if e != nil {
		return nil, e.in(file, headerPrefix)
	}
	p := headerParser{s: s, dataLen: size - base}
	if e := s.object(p.field); e != nil {
		err := e.in(file, headerPrefix)
		err.Tensor = p.current
		return nil, err
	}
	slices.SortFunc(p.out, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	var pos int64
	for i := range p.out {
		t := &p.out[i]
		if t.begin != pos {
			have := fmt.Sprintf("%d, a gap of %d bytes", t.begin, t.begin-pos)
			if t.begin < pos {
				have = fmt.Sprintf("%d, overlapping %q", t.begin, p.out[i-1].name)
			}
			return nil, &CheckpointError{
				File: file, Tensor: t.name, Offset: base + t.begin,
				Want: fmt.Sprintf("data_offsets that begin at %d", pos), Have: have,
			}
		}
		pos = t.end
		t.begin += base
		t.end += base
	}
	if pos != p.dataLen {
		return nil, &CheckpointError{
			File: file, Offset: base + pos, Want: fmt.Sprintf("a file of %d bytes, the end of the last tensor", base+pos),
			Have: fmt.Sprintf("%d bytes", size),
		}
	}
	return p.out, nil
}

type headerParser struct {
	s       *jsonScanner
	dataLen int64
	current string // name of the tensor being read
	out     []stored
}

// field reads one entry of the header.
func (p *headerParser) field(name string) *jsonError {
	if name == "__metadata__" {
		return p.metadata()
	}
	p.current = name
	t := stored{name: name, begin: -1}
	hasShape := false
	e := p.s.object(func(key string) (e *jsonError) {
		switch key {
		case "dtype":
			t.dtype, e = p.dtype()
		case "shape":
			hasShape = true
			t.shape, e = p.shape()
		case "data_offsets":
			t.begin, t.end, e = p.offsets()
		default:
			e = p.s.fault("dtype, shape and data_offsets", fmt.Sprintf("%q", key))
		}
		return e
	})
	if e != nil {
		return e
	}
	if t.dtype == "" || !hasShape || t.begin < 0 {
		return p.s.fault("dtype, shape and data_offsets", "an entry without one of them")
	}
	if n := product(t.shape, p.dataLen); n < 0 || n*int64(t.dtype.Size()) != t.end-t.begin {
		return p.s.fault(fmt.Sprintf("data_offsets that span %s %v", t.dtype, t.shape), fmt.Sprintf("%d bytes", t.end-t.begin))
	}
	p.current = ""
	p.out = append(p.out, t)
	return nil
}

func (p *headerParser) metadata() *jsonError {
	return p.s.object(func(string) *jsonError {
		t, e := p.s.token()
		if e != nil {
			return e
		}
		if _, ok := t.(string); !ok {
			return p.s.fault("metadata of strings", jsonKind(t))
		}
		return nil
	})
}

func (p *headerParser) dtype() (DType, *jsonError) {
	t, e := p.s.token()
	if e != nil {
		return "", e
	}
	name, ok := t.(string)
	if !ok {
		return "", p.s.fault("a dtype", jsonKind(t))
	}
	if d := DType(name); d.Size() > 0 {
		return d, nil
	}
	return "", p.s.fault("dtype F32, F16, BF16 or F8_E4M3", show(name))
}

func (p *headerParser) shape() ([]int, *jsonError) {
	dims, e := p.ints()
	if e != nil {
		return nil, e
	}
	if len(dims) > maxRank {
		return nil, p.s.fault(fmt.Sprintf("at most %d dimensions", maxRank), fmt.Sprint(len(dims)))
	}
	shape := make([]int, len(dims))
	for i, d := range dims {
		shape[i] = int(d)
	}
	return shape, nil
}

func (p *headerParser) offsets() (begin, end int64, e *jsonError) {
	v, e := p.ints()
	if e != nil {
		return 0, 0, e
	}
	if len(v) != 2 || v[0] > v[1] || v[1] > p.dataLen {
		return 0, 0, p.s.fault(fmt.Sprintf("data_offsets [begin, end] within %d bytes", p.dataLen), fmt.Sprint(v))
	}
	return v[0], v[1], nil
}

// ints reads a short list of numbers that are not negative.
func (p *headerParser) ints() ([]int64, *jsonError) {
	v, e := p.s.value()
	if e != nil {
		return nil, e
	}
	list, ok := v.([]any)
	if !ok {
		return nil, p.s.fault("a list of integers", jsonKind(v))
	}
	out := make([]int64, len(list))
	for i, v := range list {
		n, ok := toInt(v)
		if !ok || n < 0 {
			return nil, p.s.fault("integers that are not negative", show(v))
		}
		out[i] = n
	}
	return out, nil
}

// product multiplies a shape out, or returns -1 above limit.
func product(shape []int, limit int64) int64 {
	n := int64(1)
	for _, d := range shape {
		if d == 0 {
			return 0
		}
	}
	for _, d := range shape {
		if n > limit/int64(d) {
			return -1
		}
		n *= int64(d)
	}
	return n
}
