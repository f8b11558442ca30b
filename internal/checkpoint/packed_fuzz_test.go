package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// FuzzPacked: any bytes are the start of a file of packed weights or a typed
// error, with their own header checksum and with the right one. A header that is
// read says the same again when it is written, and its blobs lie in the file one
// behind the other.
func FuzzPacked(f *testing.F) {
	for _, sizes := range [][]int64{{1}, {64, 63, 7}, {1 << 20, 1 << 49}} {
		h, err := newPackedHeader(packedKey, newPackedSource(sizes...).blobs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(h.encode(), h.size)
	}
	f.Fuzz(func(t *testing.T, file []byte, size int64) {
		try := func(file []byte) {
			h, err := readPackedHeader(bytes.NewReader(file), "fuzz.packed", size)
			if err != nil {
				if miss, ok := errors.AsType[*PackedMissError](err); !ok || miss.Field != "version" {
					typed(t, err)
				}
				return
			}
			if again := h.encode(); !bytes.HasPrefix(file, again) {
				t.Fatalf("read as %+v, which is written as other bytes", h)
			}
			end := int64(len(h.encode()))
			for i, b := range h.blobs {
				if b.offset < end || b.offset-end >= packedAlign || b.offset%packedAlign != 0 || b.Size <= 0 || b.Size > size-b.offset || h.byName[b.Name] != &h.blobs[i] {
					t.Fatalf("blob %d: %+v behind byte %d of %d", i, b, end, size)
				}
				end = b.offset + b.Size
			}
			if end != size || h.data != h.blobs[0].offset || len(h.byName) != len(h.blobs) {
				t.Fatalf("%+v in a file of %d bytes", h, size)
			}
		}
		if size < 0 {
			return
		}
		try(file)
		if len(file) < packedFixed {
			return
		}
		if n := binary.LittleEndian.Uint64(file[16:]); packedFixed+4 <= n && n <= uint64(len(file)) {
			try(resign(slices.Clone(file), int(n)))
		}
	})
}
