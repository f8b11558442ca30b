package backendtest

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// stepScene embeds, projects, attends and samples, so that a step has everything
// to get wrong.
func stepScene() scene {
	d := oddLatent
	return scene{
		planes:   []plane{{width: d.c + d.rope, fill: rows("latent", d.c+d.rope, 1), writes: true}},
		causal:   true,
		sampling: func(key) backend.Sampling { return backend.Sampling{Presence: 1, Counts: counts(3), Top: 1} },
		build: func(r *rig) backend.Program {
			h := r.out("h", d.hidden)
			n, l := r.out("n", d.hidden), r.outRows("l", r.scene.vocab, nil, true)
			project := r.mlaProject(d, usualNorms, h, 0)
			return backend.Program{
				&backend.Embed{Table: r.load("embed", r.scene.vocab, d.hidden), Dst: h},
				project,
				r.mlaAttend(d, project.Q, 0, 0, d.scale()),
				&backend.FinalNorm{H: h, Norm: r.vector("final norm", d.hidden), Eps: 1e-5, Dst: n},
				&backend.Logits{N: n, Head: r.load("head", r.scene.vocab, d.hidden), Valid: r.scene.vocab, Dst: l},
				&backend.AdjustLogits{L: l}, &backend.Sample{L: l},
			}
		},
	}
}

func (s suite) step(t *testing.T) {
	t.Run("Law", func(t *testing.T) { s.laws(t, stepScene(), attendUnits) })
	t.Run("Echo", s.echo)
	t.Run("Errors", s.stepErrors)
	t.Run("Abort", s.abort)
	t.Run("TagMismatch", s.tagMismatch)
	t.Run("OnlyPadding", func(t *testing.T) {
		o := s.rig(t, stepScene()).play(layout{name: "padding", tail: 3}, variation{})
		o.mustBeClean(t)
	})
}

func (s suite) echo(t *testing.T) {
	r := s.rig(t, stepScene())
	if r.b.Name() == "" {
		t.Error("the backend has no name")
	}
	for _, epoch := range []uint64{1, 1<<63 + 9} {
		r.prepare(ragged, variation{}, pageTable(r.scene.pages, 0), &snapshot{})
		step := r.step(ragged, variation{})
		step.Epoch = epoch
		res := r.run(step)
		if res.Epoch != epoch || !slices.Equal(res.Tag, step.Tag) || !slices.Equal(res.Session, step.Session) || res.Aborted {
			t.Errorf("epoch %d, tags %v, sessions %v, aborted %v, want %d, %v, %v, false",
				res.Epoch, res.Tag, res.Session, res.Aborted, epoch, step.Tag, step.Session)
		}
	}
}

// stepErrors breaks one part of a step at a time: Start must name it and start
// nothing.
func (s suite) stepErrors(t *testing.T) {
	for _, c := range []struct {
		name, field string
		index       int
		tamper      func(*backend.Step)
	}{
		{"SeqLength", "len(Seq)", 0, func(s *backend.Step) { s.Seq = s.Seq[1:] }},
		{"PosLength", "len(Pos)", 0, func(s *backend.Step) { s.Pos = append(s.Pos, 0) }},
		{"QStartLength", "len(QStart)", 0, func(s *backend.Step) { s.QStart = s.QStart[:1] }},
		{"QStartEmpty", "len(QStart)", 0, func(s *backend.Step) { s.QStart = nil }},
		{"TagLength", "len(Tag)", 0, func(s *backend.Step) { s.Tag = nil }},
		{"TooManyRows", "len(IDs)", 0, func(s *backend.Step) { pad(s, maxRows+guardRows) }},
		{"TooManyOuts", "len(Out)", 0, func(s *backend.Step) {
			for range maxRows + guardRows {
				s.Out = append(s.Out, 0)
			}
			s.Sampling = nil
		}},
		{"KVLenNegative", "KVLen", 3, func(s *backend.Step) {
			s.KVLen, s.QStart = append(s.KVLen[:3:3], -1), append(s.QStart[:4:4], s.QStart[3])
			for r := s.QStart[3]; int(r) < len(s.Seq); r++ {
				s.Seq[r] = -1
			}
		}},
		{"TemperatureNaN", "Sampling", 0, func(s *backend.Step) {
			s.Sampling = make([]backend.Sampling, len(s.Out))
			s.Sampling[0].Temperature = nan
		}},
		{"TopKNegative", "Sampling", 1, func(s *backend.Step) {
			s.Sampling = make([]backend.Sampling, len(s.Out))
			s.Sampling[1].TopK = -1
		}},
		{"UIsOne", "Sampling", 0, func(s *backend.Step) {
			s.Sampling = make([]backend.Sampling, len(s.Out))
			s.Sampling[0].U = 1
		}},
		{"SessionLength", "len(Session)", 0, func(s *backend.Step) { s.Session = s.Session[1:] }},
		{"PageTagLength", "len(PageTag)", 0, func(s *backend.Step) { s.PageTag = s.PageTag[1:] }},
		{"PagesLength", "len(Pages)", 0, func(s *backend.Step) { s.Pages = s.Pages[1:] }},
		{"SamplingLength", "len(Sampling)", 0, func(s *backend.Step) { s.Sampling = make([]backend.Sampling, 3) }},
		{"QStartFirst", "QStart", 0, func(s *backend.Step) { s.QStart[0] = 1 }},
		{"QStartDescends", "QStart", 2, func(s *backend.Step) { s.QStart[2] = s.QStart[1] - 1 }},
		{"QStartPastRows", "QStart", 4, func(s *backend.Step) { s.QStart[4] = 99 }},
		{"SeqInterrupted", "Pos", 0, func(s *backend.Step) { s.Seq[3] = 1 }}, // three rows then end at the wrong position
		{"SeqTooLarge", "Seq", 8, func(s *backend.Step) { s.Seq[8] = 4 }},
		{"SeqAfterPadding", "Seq", 7, func(s *backend.Step) { s.Seq[7] = 1 }},
		{"SeqInTail", "Seq", 30, func(s *backend.Step) { s.Seq[30] = 3 }},
		{"PosSkips", "Pos", 2, func(s *backend.Step) { s.Pos[2] = 5 }},
		{"PosNegative", "Pos", 0, func(s *backend.Step) { s.Pos[0] = -1 }},
		{"PosPastKVLen", "Pos", 8, func(s *backend.Step) { s.Pos[8] = 13 }},
		{"KVLenShort", "Pos", 0, func(s *backend.Step) { s.KVLen[0] = 3 }},
		{"KVLenPastStride", "KVLen", 2, func(s *backend.Step) { s.KVLen[2] = 1000 }},
		{"IDNegative", "IDs", 4, func(s *backend.Step) { s.IDs[4] = -1 }},
		{"IDOutOfVocabulary", "IDs", 8, func(s *backend.Step) { s.IDs[8] = 16 }},
		{"PageNegative", "Pages", 0, func(s *backend.Step) { s.Pages[0] = -1 }},
		{"PageTooLarge", "Pages", 1, func(s *backend.Step) { s.Pages[1] = 60 }},
		{"OutNegative", "Out", 0, func(s *backend.Step) { s.Out[0] = -1 }},
		{"OutPastRows", "Out", 2, func(s *backend.Step) { s.Out[2] = int32(len(s.IDs)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.rig(t, stepScene())
			step := r.step(ragged, variation{})
			c.tamper(step)
			before := &snapshot{}
			r.prepare(ragged, variation{}, pageTable(r.scene.pages, 0), before)
			err := r.b.Start(r.program, step, r.pages)
			var stepErr *backend.StepError
			if !errors.As(err, &stepErr) {
				t.Fatalf("Start returned %v, want a *StepError", err)
			}
			if stepErr.Field != c.field || stepErr.Index != c.index {
				t.Errorf("%v: at %s[%d], want %s[%d]", err, stepErr.Field, stepErr.Index, c.field, c.index)
			}
			for i, b := range r.buffers {
				if !sameBits(r.b.Read(b.id, maxRows+guardRows), before.buffers[i]) {
					t.Errorf("buffer %s was written", b.name)
				}
			}
			for p := range before.pages {
				if !slices.Equal(r.pages.Export(nil, p), before.pages[p]) {
					t.Errorf("page %d was written", p)
				}
			}
			// The backend is ready for a good step.
			r.play(ragged, variation{}).mustBeHealthy(t)
		})
	}
	t.Run("ForeignPages", func(t *testing.T) {
		r := s.rig(t, stepScene())
		r.pages = strangePages{r.pages}
		step := r.step(ragged, variation{})
		if err := r.b.Start(r.program, step, r.pages); err == nil {
			t.Error("a step started on pages of another backend")
			r.b.Wait()
		}
	})
}

// strangePages are pages that no backend made.
type strangePages struct{ backend.Pages }

// abort raises the word before the step starts: nothing is promised of the
// step's own pages, but others stay, no id is sampled, and the next step is as
// good as ever.
func (s suite) abort(t *testing.T) {
	r := s.rig(t, stepScene())
	want := r.play(ragged, variation{})

	var word atomic.Bool
	word.Store(true)
	raised := variation{tamper: func(s *backend.Step) { s.Abort = &word }}
	o := r.play(ragged, raised)
	if !o.result.Aborted {
		t.Error("an abort word raised before the step was not seen")
	}
	if o.result.Epoch != 42 || len(o.result.Tag) != len(ragged.spans) {
		t.Errorf("an aborted step echoes epoch %d and tags %v", o.result.Epoch, o.result.Tag)
	}
	for k, id := range o.lists["id"] {
		if id[0] != -1 {
			t.Errorf("an aborted step sampled %d at %v", id[0], k)
		}
	}
	o.mustBeClean(t)

	word.Store(false)
	o = r.play(ragged, raised)
	if o.result.Aborted {
		t.Error("a step with a lowered abort word was aborted")
	}
	o.mustEqual(t, want, ragged.keys()...)
}

// tagMismatch gives one sequence a page of another owner: its first, its last,
// one in the middle. None of its rows may read or write; the others do not notice.
func (s suite) tagMismatch(t *testing.T) {
	r := s.rig(t, stepScene())
	want := r.play(ragged, variation{})
	for page, name := range map[int]string{0: "FirstPage", 2: "MiddlePage", 5: "LastPage"} {
		t.Run(name, func(t *testing.T) {
			mismatch := func(st *backend.Step) { r.pages.SetTag(int(st.Pages[3*st.Stride+page]), foreign) }
			o := r.play(ragged, variation{tamper: mismatch})
			o.mustBeClean(t)
			for _, k := range ragged.keys() {
				if k.seq != 2 {
					o.mustEqual(t, want, k)
				} else if o.health[k] != backend.TagMismatch || o.lists["id"][k][0] != -1 {
					t.Errorf("%v is %v and sampled %v, want %v and -1", k, o.health[k], o.lists["id"][k], backend.TagMismatch)
					break
				}
			}
		})
	}
	t.Run("ExpectedTag", func(t *testing.T) {
		o := r.play(ragged, variation{tamper: func(st *backend.Step) { st.PageTag[0]++ }})
		o.mustBeClean(t)
		for _, k := range ragged.keys() {
			if (o.health[k] == backend.TagMismatch) != (k.seq == 1) {
				t.Errorf("%v is %v", k, o.health[k])
			}
		}
	})
	t.Run("SharedPage", func(t *testing.T) {
		// The decoding sequence reads its first page from the chunk's sequence,
		// which does not write there. It must expect that page's tag, not its own.
		for _, expected := range []struct {
			tag  uint64
			want backend.Health
		}{{tagOf(2), 0}, {tagOf(0), backend.TagMismatch}} {
			o := r.play(ragged, variation{tamper: func(st *backend.Step) {
				st.Pages[1*st.Stride] = st.Pages[3*st.Stride]
				st.PageTag[1*st.Stride] = expected.tag
			}})
			o.mustBeClean(t)
			for _, k := range ragged.keys() {
				want := backend.Health(0)
				if k.seq == 0 {
					want = expected.want
				}
				if o.health[k] != want {
					t.Errorf("expecting tag %d: %v is %v, want %v", expected.tag, k, o.health[k], want)
				}
			}
		}
	})
	t.Run("WriteIntoSharedPage", func(t *testing.T) {
		// The page carries the tag that the step expects, but it is not the
		// sequence's own, and the step would write there.
		o := r.play(ragged, variation{tamper: func(st *backend.Step) {
			_, to := st.Writes(1)
			at := 1*st.Stride + (to-1)/r.scene.pageSize
			r.pages.SetTag(int(st.Pages[at]), foreign)
			st.PageTag[at] = foreign
		}})
		o.mustBeClean(t)
		for _, k := range ragged.keys() {
			if (o.health[k] == backend.TagMismatch) != (k.seq == 0) {
				t.Errorf("%v is %v", k, o.health[k])
			}
		}
	})
	t.Run("PageBeyondTheEnd", func(t *testing.T) {
		// A page that the sequence does not reach yet may be anybody's.
		o := r.play(ragged, variation{tamper: func(st *backend.Step) { st.Pages[1*st.Stride+4] = st.Pages[0] }})
		o.mustBeHealthy(t)
	})
}
