package kvcache

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Tickets and manifests do not travel as bytes yet. What can be fuzzed here is
// what a caller hands in: the arrays of an upload, and the order of events.

// effect says what a device would do with an upload: which row it writes where,
// and which pages each sequence reads.
func effect(up Arrays, pageSize int) (what []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	for r, q := range up.Seq {
		if q >= 0 {
			page := up.Pages[int(q)*up.Stride+int(up.Pos[r])/pageSize]
			what = append(what, fmt.Sprint("write ", up.Session[q], up.Tag[q], up.Pos[r], up.IDs[r], page))
		}
	}
	for q, n := range up.KVLen {
		for i := range (int(n) + pageSize - 1) / pageSize {
			at := q*up.Stride + i
			what = append(what, fmt.Sprint("read ", up.Session[q], up.Tag[q], i, up.Pages[at], up.PageTag[at]))
		}
	}
	slices.Sort(what)
	return what, nil
}

// An upload that passes Check does what the step said, and nothing else.
func FuzzUpload(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{6, 0, 1, 0, 6, 5, 255, 255})
	f.Add([]byte{3, 1, 255, 255, 1, 7, 0, 1, 9, 2, 1, 0})
	f.Add([]byte{5, 0, 3, 0, 5, 1, 253, 255, 4, 0, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, store := testPool(t, 16, nil)
		a, b := admitted(t, session(t, p, "a"), tokens(1, 10), 4), admitted(t, session(t, p, "b"), tokens(50, 6), 4)
		prefill(t, p, store, a)
		s, err := p.Begin([]Entry{{a, 10, []int32{7}}, {b, 0, tokens(50, 6)}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			s.Abort()
			a.End(CauseStop, nil)
			b.End(CauseStop, nil)
		}()
		up := pad(s.Arrays(), []int{1, 0}, 5, 4, 3)
		want, err := effect(up, 4)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(data) >= 4; data = data[4:] {
			spoil(&up, data[0], data[1], int16(binary.LittleEndian.Uint16(data[2:])))
		}
		if s.Check(up) != nil {
			return
		}
		have, err := effect(up, 4)
		if err != nil || !slices.Equal(have, want) {
			t.Fatalf("passed, and does\n%s\nwant\n%s\n%v", strings.Join(have, "\n"), strings.Join(want, "\n"), err)
		}
	})
}

// spoil changes one number of an upload.
func spoil(up *Arrays, field, at byte, by int16) {
	small := [][]int32{up.IDs, up.Seq, up.Pos, up.QStart, up.KVLen, up.Pages}
	large := [][]uint64{up.Session, up.Tag, up.PageTag}
	switch k := int(field) % 11; {
	case k < 6 && len(small[k]) > 0:
		small[k][int(at)%len(small[k])] += int32(by)
	case k < 9 && k >= 6 && len(large[k-6]) > 0:
		large[k-6][int(at)%len(large[k-6])] += uint64(int64(by))
	case k == 9:
		up.Stride += int(by)
	case k == 10:
		// One sequence's place for another's.
		if n := len(up.Tag); n > 0 {
			i, j := int(at)%n, int(uint16(by))%n
			up.Tag[i], up.Session[i], up.KVLen[i] = up.Tag[j], up.Session[j], up.KVLen[j]
		}
	}
}

// Histories of the simulation that coverage leads to, instead of chance.
func FuzzSimulation(f *testing.F) {
	for seed := range uint64(8) {
		var b []byte
		for _, o := range simHistory(seed)[:40] {
			b = append(b, byte(o.kind), byte(o.a), byte(o.b), byte(o.c))
		}
		f.Add(seed, b)
	}
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		var history []simOp
		for ; len(data) >= 4 && len(history) < 400; data = data[4:] {
			history = append(history, simOp{int(data[0]) % len(simKinds), int(data[1] % 64), int(data[2] % 64), int(data[3] % 64)})
		}
		if s := simulate(t, seed, history); s.failed != nil {
			t.Fatalf("%v\n  %s", s.failed, strings.Join(s.log, "\n  "))
		}
	})
}
