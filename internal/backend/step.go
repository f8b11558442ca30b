package backend

import (
	"fmt"
	"sync/atomic"
)

// Step is one ragged batch. A backend reads it between Start and Wait and never
// changes it; nobody else may change it meanwhile.
//
// The rows of sequence s are [QStart[s], QStart[s+1]): its tokens in ascending,
// consecutive positions that end at KVLen[s]-1, then padding rows, if any. All
// rows after QStart[S] are padding.
type Step struct {
	Epoch uint64 // echoed in the result

	IDs []int32 // [R] input ids
	Seq []int32 // [R] sequence of the row, -1: padding
	Pos []int32 // [R] position of the row in its sequence

	QStart  []int32  // [S+1]
	KVLen   []int32  // [S] positions that exist once this step has written its rows
	Session []uint64 // [S] echoed in the result
	Tag     []uint64 // [S] the lease of the sequence: the tag of every page it writes; echoed in the result

	Pages   []int32  // [S, Stride] page numbers; position p lies on page p/PageSize
	PageTag []uint64 // [S, Stride] tag that the page must carry: Tag, or that of a shared page, which is only read
	Stride  int

	Out      []int32    // [O] rows whose logits are wanted; may repeat or be padding
	Sampling []Sampling // [O], or empty: nothing is sampled

	// Abort, when set, may be raised by anyone while the step runs; workers
	// poll it and leave early.
	Abort *atomic.Bool
}

// Writes returns the positions [from, to) that the step writes of a sequence.
func (s *Step) Writes(seq int) (from, to int) {
	rows := 0
	for r := s.QStart[seq]; r < s.QStart[seq+1]; r++ {
		if s.Seq[r] >= 0 {
			rows++
		}
	}
	return int(s.KVLen[seq]) - rows, int(s.KVLen[seq])
}

// Rows returns R.
func (s *Step) Rows() int { return len(s.IDs) }

// Seqs returns S.
func (s *Step) Seqs() int { return len(s.KVLen) }

// StepError says which part of a step broke the contract.
type StepError struct {
	Field      string
	Index      int
	Want, Have string
}

func (e *StepError) Error() string {
	return fmt.Sprintf("backend: step: %s[%d]: have %s, want %s", e.Field, e.Index, e.Have, e.Want)
}

// Check reports the first breach of the contract: lengths, positions, and page
// numbers outside [0, spec.Pages) for positions that the step reaches. vocab is
// the number of embedding rows; a program without Embed leaves ids unbounded.
func (s *Step) Check(spec PageSpec, vocab int) error {
	rows, seqs := s.Rows(), s.Seqs()
	for _, f := range []struct {
		name       string
		have, want int
	}{
		{"len(Seq)", len(s.Seq), rows},
		{"len(Pos)", len(s.Pos), rows},
		{"len(QStart)", len(s.QStart), seqs + 1},
		{"len(Session)", len(s.Session), seqs},
		{"len(Tag)", len(s.Tag), seqs},
		{"len(Pages)", len(s.Pages), seqs * s.Stride},
		{"len(PageTag)", len(s.PageTag), seqs * s.Stride},
	} {
		if f.have != f.want {
			return &StepError{Field: f.name, Want: fmt.Sprint(f.want), Have: fmt.Sprint(f.have)}
		}
	}
	if len(s.Sampling) != 0 && len(s.Sampling) != len(s.Out) {
		return &StepError{Field: "len(Sampling)", Want: fmt.Sprintf("0 or %d", len(s.Out)), Have: fmt.Sprint(len(s.Sampling))}
	}
	if err := s.checkRows(vocab); err != nil {
		return err
	}
	for q := range seqs {
		n := ceilDiv(int(s.KVLen[q]), spec.PageSize)
		if s.KVLen[q] < 0 || n > s.Stride {
			return &StepError{Field: "KVLen", Index: q, Want: fmt.Sprintf("0 to %d positions", s.Stride*spec.PageSize), Have: fmt.Sprint(s.KVLen[q])}
		}
		for i := range n {
			if p := s.Pages[q*s.Stride+i]; p < 0 || int(p) >= spec.Pages {
				return &StepError{Field: "Pages", Index: q*s.Stride + i, Want: fmt.Sprintf("a page in [0, %d)", spec.Pages), Have: fmt.Sprint(p)}
			}
		}
	}
	for i, r := range s.Out {
		if r < 0 || int(r) >= rows {
			return &StepError{Field: "Out", Index: i, Want: fmt.Sprintf("a row in [0, %d)", rows), Have: fmt.Sprint(r)}
		}
	}
	for i := range s.Sampling {
		if f := &s.Sampling[i]; !(f.Temperature >= 0 && f.TopP >= 0 && f.MinP >= 0 && f.U >= 0 && f.U < 1) || f.TopK < 0 || f.Top < 0 {
			return &StepError{
				Field: "Sampling", Index: i, Want: "temperature, top-k, top-p, min-p and top at least 0, u in [0, 1)",
				Have: fmt.Sprintf("%v, %d, %v, %v, %d, %v", f.Temperature, f.TopK, f.TopP, f.MinP, f.Top, f.U),
			}
		}
	}
	return nil
}

func (s *Step) checkRows(vocab int) error {
	if s.QStart[0] != 0 {
		return &StepError{Field: "QStart", Want: "0", Have: fmt.Sprint(s.QStart[0])}
	}
	rows := s.Rows()
	for q := range s.Seqs() {
		a, b := int(s.QStart[q]), int(s.QStart[q+1])
		if b < a || b > rows {
			return &StepError{Field: "QStart", Index: q + 1, Want: fmt.Sprintf("in [%d, %d]", a, rows), Have: fmt.Sprint(b)}
		}
		n := a
		for n < b && s.Seq[n] == int32(q) {
			n++
		}
		for r := a; r < b; r++ {
			if r >= n && s.Seq[r] != -1 {
				return &StepError{Field: "Seq", Index: r, Want: "-1 after the rows of the sequence", Have: fmt.Sprint(s.Seq[r])}
			}
			if r >= n {
				continue
			}
			if want := s.KVLen[q] - int32(n-r); s.Pos[r] != want || want < 0 {
				return &StepError{Field: "Pos", Index: r, Want: fmt.Sprint(want), Have: fmt.Sprint(s.Pos[r])}
			}
			if s.IDs[r] < 0 || int(s.IDs[r]) >= vocab {
				return &StepError{Field: "IDs", Index: r, Want: fmt.Sprintf("an id in [0, %d)", vocab), Have: fmt.Sprint(s.IDs[r])}
			}
		}
	}
	for r := int(s.QStart[s.Seqs()]); r < rows; r++ {
		if s.Seq[r] != -1 {
			return &StepError{Field: "Seq", Index: r, Want: "-1 after the last sequence", Have: fmt.Sprint(s.Seq[r])}
		}
	}
	return nil
}
