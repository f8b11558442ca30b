package backendtest

import (
	"bytes"
	"hash/fnv"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/oracle"
)

// pageSpecs are geometries of odd widths in every format.
var pageSpecs = []backend.PageSpec{
	{Pages: 7, PageSize: 4, Format: backend.KVF32, Planes: []int{5, 1, 33}},
	{Pages: 5, PageSize: 16, Format: backend.KVBF16, Planes: []int{7, 3}},
	{Pages: 3, PageSize: 1, Format: backend.KVBF16, Planes: []int{1}},
}

// pageBytes are the content of one page, seeded.
func pageBytes(spec backend.PageSpec, page int) []byte {
	out := make([]byte, spec.PageBytes())
	rng := source("page", page)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

// filled is KV memory in which every byte of every page is set.
func filled(t *testing.T, b backend.Backend, spec backend.PageSpec) backend.Pages {
	t.Helper()
	p, err := b.NewPages(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for i := range spec.Pages {
		if err := p.Import(i, pageBytes(spec, i)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// mustHold compares every page with what it should hold.
func mustHold(t *testing.T, p backend.Pages, want func(page int) []byte) {
	t.Helper()
	for i := range p.Spec().Pages {
		if have := p.Export(nil, i); !bytes.Equal(have, want(i)) {
			t.Errorf("page %d does not hold what it should", i)
		}
	}
}

func (s suite) pages(t *testing.T) {
	each := func(name string, test func(t *testing.T, b backend.Backend, spec backend.PageSpec)) {
		t.Run(name, func(t *testing.T) {
			b := s.open(t)
			t.Cleanup(func() { b.Close() })
			for _, spec := range pageSpecs {
				test(t, b, spec)
			}
		})
	}
	each("NewIsZeroed", func(t *testing.T, b backend.Backend, spec backend.PageSpec) {
		p, err := b.NewPages(spec)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if have := p.Spec(); have.Pages != spec.Pages || have.PageSize != spec.PageSize || have.Format != spec.Format || len(have.Planes) != len(spec.Planes) {
			t.Errorf("spec = %v, want %v", have, spec)
		}
		mustHold(t, p, func(int) []byte { return make([]byte, spec.PageBytes()) })
	})
	each("ImportExport", func(t *testing.T, b backend.Backend, spec backend.PageSpec) {
		p := filled(t, b, spec)
		mustHold(t, p, func(i int) []byte { return pageBytes(spec, i) })
		if have := p.Export([]byte("before"), 1); !bytes.Equal(have, append([]byte("before"), pageBytes(spec, 1)...)) {
			t.Error("Export does not append")
		}
		for _, n := range []int{0, spec.PageBytes() - 1, spec.PageBytes() + 1} {
			if p.Import(1, make([]byte, n)) == nil {
				t.Errorf("%d bytes were imported into a page of %d", n, spec.PageBytes())
			}
		}
		mustHold(t, p, func(i int) []byte { return pageBytes(spec, i) })
	})
	each("ImportOnAnotherBackend", func(t *testing.T, b backend.Backend, spec backend.PageSpec) {
		other := oracle.New()
		p, q := filled(t, b, spec), filled(t, other, spec)
		for i := range spec.Pages {
			if err := q.Import((i+1)%spec.Pages, p.Export(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range spec.Pages {
			if err := p.Import(i, q.Export(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		mustHold(t, p, func(i int) []byte { return pageBytes(spec, (i+spec.Pages-1)%spec.Pages) })
	})
	each("Scrub", func(t *testing.T, b backend.Backend, spec backend.PageSpec) {
		p := filled(t, b, spec)
		p.Scrub(2, 0)
		mustHold(t, p, func(i int) []byte {
			if i == 0 || i == 2 {
				return make([]byte, spec.PageBytes())
			}
			return pageBytes(spec, i)
		})
	})
	each("Copy", func(t *testing.T, b backend.Backend, spec backend.PageSpec) {
		p := filled(t, b, spec)
		p.Copy(0, 2)
		mustHold(t, p, func(i int) []byte {
			if i == 0 {
				i = 2
			}
			return pageBytes(spec, i)
		})
	})
	each("Sum", func(t *testing.T, b backend.Backend, spec backend.PageSpec) {
		p := filled(t, b, spec)
		for i := range spec.Pages {
			h := fnv.New64a()
			h.Write(pageBytes(spec, i))
			if have := p.Sum(i); have != h.Sum64() {
				t.Errorf("sum of page %d = %#x, want %#x", i, have, h.Sum64())
			}
		}
	})
	t.Run("Close", func(t *testing.T) {
		b := s.open(t)
		p, err := b.NewPages(pageSpecs[0])
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Refused", func(t *testing.T) {
		b := s.open(t)
		defer b.Close()
		for _, spec := range []backend.PageSpec{
			{},
			{Pages: 1, PageSize: 4, Planes: []int{1}},
			{Pages: 0, PageSize: 4, Format: backend.KVF32, Planes: []int{1}},
			{Pages: 1, PageSize: -4, Format: backend.KVF32, Planes: []int{1}},
			{Pages: 1, PageSize: 4, Format: backend.KVF32},
			{Pages: 1, PageSize: 4, Format: backend.KVF32, Planes: []int{3, 0}},
		} {
			if _, err := b.NewPages(spec); err == nil {
				t.Errorf("pages of %+v were made", spec)
			}
		}
	})
	t.Run("Layout", s.pageLayout)
	t.Run("Tags", s.tags)
}

// pageLayout: the bytes of a page are its planes in order, each [PageSize,
// width]. A step writes position 6 of pages of 4: the second page, offset 2.
func (s suite) pageLayout(t *testing.T) {
	sc := indexScene(1, 2, 2, fill(2, 0), fill(2, 0), fill(2, 1), []float32{3, 0}, []float32{1})
	sc.planes = []plane{{width: 3, fill: rows("another plane", 3, 1)}, {width: 2, fill: rows("index keys", 2, 1), writes: true}}
	build := sc.build
	sc.build = func(r *rig) backend.Program {
		p := build(r)
		p[0].(*backend.IndexProject).Plane = 1
		p[0].(*backend.IndexProject).Rope.Theta = 1
		return p
	}
	r := s.rig(t, sc)
	l := layout{name: "sixth", spans: []span{{1, 6, 7, 0}}}
	r.play(l, variation{})
	page := r.pages.Export(nil, int(pageTable(r.scene.pages, 0)[1][1]))
	have := decodeKV(page[4*(3*4+2*2):][:8], backend.KVF32)
	mustBe(t, key{1, 6}, "key", have, []float64{3 * 0.96017028665, 3 * -0.27941549819}) // cosine and sine of 6
}

// tags follow pages as the contract says: Scrub clears, Copy and Import keep.
func (s suite) tags(t *testing.T) {
	sc := linearScene(2, 3, false, false, asF32)
	sc.planes = []plane{{width: 2, fill: rows("plane", 2, 1)}}
	r := s.rig(t, sc)
	r.play(single, variation{}) // sets the tag of the sequence's page
	page := int(pageTable(r.scene.pages, 0)[0][0])
	other := int(pageTable(r.scene.pages, 0)[1][0])
	check := func(what string, tag uint64, want backend.Health) {
		t.Helper()
		step := r.step(single, variation{})
		step.Tag[0], step.PageTag[0] = tag, tag
		if res := r.run(step); res.Health[0] != want {
			t.Errorf("%s: tag %d is %v, want %v", what, tag, res.Health[0], want)
		}
	}
	check("set", tagOf(0), 0)
	check("set", foreign, backend.TagMismatch)
	r.pages.Copy(page, other)
	check("copied to", tagOf(0), 0)
	if err := r.pages.Import(page, make([]byte, r.pages.Spec().PageBytes())); err != nil {
		t.Fatal(err)
	}
	check("imported", tagOf(0), 0)
	r.pages.SetTag(page, 1<<63|5)
	check("set again", 1<<63|5, 0)
	check("set again", 5, backend.TagMismatch)
	check("set again", tagOf(0), backend.TagMismatch)
	r.pages.Scrub(page)
	check("scrubbed", 0, 0)
	check("scrubbed", 1<<63|5, backend.TagMismatch)
	fresh, err := r.b.NewPages(r.pages.Spec())
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	r.pages = fresh
	check("new", 0, 0)
	check("new", tagOf(0), backend.TagMismatch)
}
