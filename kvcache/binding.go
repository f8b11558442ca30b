package kvcache

import "fmt"

// Check compares the arrays that are about to be uploaded, after any padding
// and permutation of rows and sequences, with the page sidecars: every
// sequence of the step exactly once, under its own lease nonce, with its own
// tokens and positions, on pages of its own lease or scope at their present
// generation and tag, pinned by this step; and null pages everywhere else.
// Call it always, last thing before the upload. On error nothing of the step
// may run: Abort it.
func (s Step) Check(up Arrays) error {
	if s.m == nil {
		return unknownStep(0)
	}
	p := s.m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := s.inFlight()
	if err != nil {
		return err
	}
	return p.flaw(nil, m.check(up))
}

func (m *StepMemory) check(up Arrays) error {
	seqs, rows := len(up.KVLen), len(up.IDs)
	for _, f := range []struct {
		name       string
		have, want int
	}{
		{"len(Seq)", len(up.Seq), rows},
		{"len(Pos)", len(up.Pos), rows},
		{"len(QStart)", len(up.QStart), seqs + 1},
		{"len(Session)", len(up.Session), seqs},
		{"len(Tag)", len(up.Tag), seqs},
		{"len(Pages)", len(up.Pages), seqs * up.Stride},
		{"len(PageTag)", len(up.PageTag), seqs * up.Stride},
	} {
		if f.have != f.want {
			return unbound(-1, fmt.Sprintf("%s %d", f.name, f.want), fmt.Sprint(f.have))
		}
	}
	if up.QStart[0] != 0 {
		return unbound(-1, "QStart[0] 0", fmt.Sprint(up.QStart[0]))
	}
	m.seen = zeros(m.seen, len(m.leases))
	for q := range seqs {
		if a, b := up.QStart[q], up.QStart[q+1]; b < a || int(b) > rows {
			return unbound(-1, fmt.Sprintf("QStart[%d] in [%d, %d]", q+1, a, rows), fmt.Sprint(b))
		}
		if err := m.checkSequence(up, q); err != nil {
			return err
		}
	}
	if err := checkPadding(up, int(up.QStart[seqs]), rows); err != nil {
		return err
	}
	for q, ok := range m.seen {
		if !ok {
			return unbound(-1, fmt.Sprintf("the sequence of request %d", m.leases[q].id.request), "none")
		}
	}
	return nil
}

// checkSequence checks sequence q of the upload: rows, then pages.
func (m *StepMemory) checkSequence(up Arrays, q int) error {
	c := m.pool.core
	first, end := int(up.QStart[q]), int(up.QStart[q+1])
	pages, tags := up.Pages[q*up.Stride:(q+1)*up.Stride], up.PageTag[q*up.Stride:(q+1)*up.Stride]
	reach := 0
	if up.KVLen[q] != 0 || up.Tag[q] != 0 || up.Session[q] != 0 {
		i, ok := m.seqs[up.Tag[q]]
		if !ok || m.seen[i] {
			return unbound(-1, "each sequence of the step once", fmt.Sprintf("lease %d", up.Tag[q]))
		}
		m.seen[i] = true
		l := c.lease(m.leases[i].id)
		if l == nil || l.step != m.epoch || l.nonce != up.Tag[q] || l.session != up.Session[q] {
			return unbound(-1, "session and lease of the step", fmt.Sprintf("session %d, lease %d", up.Session[q], up.Tag[q]))
		}
		at := int(m.at[i])
		if int(up.KVLen[q]) != at+len(l.pending) || end-first < len(l.pending) {
			return unbound(at, fmt.Sprintf("%d rows up to %d", len(l.pending), at+len(l.pending)), fmt.Sprintf("%d up to %d", end-first, up.KVLen[q]))
		}
		for j, t := range l.pending {
			if r := first + j; int(up.Seq[r]) != q || int(up.Pos[r]) != at+j || up.IDs[r] != t {
				return unbound(at+j, "the row of the position", "another")
			}
		}
		first += len(l.pending)
		reach = int(l.pinned[byStep])
		if reach > up.Stride {
			return unbound(at, fmt.Sprintf("page tables of %d", reach), fmt.Sprint(up.Stride))
		}
		for j, r := range l.table[:reach] {
			pg := &c.s.pages[r.page]
			if pages[j] != r.page || tags[j] != pg.tag || pg.gen != r.gen || pg.pins == 0 {
				return unbound(j*c.cfg.PageSize, fmt.Sprintf("page %d, generation %d, tag %d", r.page, r.gen, pg.tag), fmt.Sprintf("page %d, generation %d, tag %d", pages[j], pg.gen, tags[j]))
			}
		}
	}
	for j := reach; j < up.Stride; j++ {
		if pages[j] != NullPage || tags[j] != 0 {
			return unbound(j*c.cfg.PageSize, "the null page", fmt.Sprintf("page %d", pages[j]))
		}
	}
	return checkPadding(up, first, end)
}

func checkPadding(up Arrays, from, to int) error {
	for r := from; r < to; r++ {
		if up.Seq[r] != -1 {
			return unbound(-1, fmt.Sprintf("row %d to be padding", r), fmt.Sprintf("sequence %d", up.Seq[r]))
		}
	}
	return nil
}

func unbound(position int, want, have string) error {
	return &IntegrityError{Kind: ErrBinding, Position: position, Want: want, Have: have}
}
