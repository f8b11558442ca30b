package kvcache

import (
	"encoding/binary"
	"slices"
)

// clone returns a copy of the state that shares nothing with it.
func (s *state) clone() state {
	c := *s
	c.pages = slices.Clone(s.pages)
	c.index = s.index.clone()
	c.leases = slices.Clone(s.leases)
	for i := range c.leases {
		l := &c.leases[i]
		l.table, l.tail, l.pending = slices.Clone(l.table), slices.Clone(l.tail), slices.Clone(l.pending)
	}
	return c
}

// equal reports whether two states are the same state.
func (s *state) equal(o *state) bool {
	return slices.Equal(s.encode(nil, nil), o.encode(nil, nil))
}

// naming renames what the state is symmetric in, so that states which differ
// only by names get one encoding. nil keeps every name.
type naming struct {
	pages  []int32 // page -> name
	order  []int32 // name -> page
	leases []int32 // slots in the order in which they are written
	slots  []int32 // slot -> its place in leases
	ids    []uint64
}

func (n *naming) page(p int32) int32 {
	if n == nil || p == none {
		return p
	}
	return n.pages[p]
}

func (n *naming) slot(s int32) int32 {
	if n == nil || s == none {
		return s
	}
	return n.slots[s]
}

// id replaces an identity by its rank: identities are compared only with each
// other, and a new one is larger than all.
func (n *naming) id(v uint64) uint64 {
	if n == nil || v == 0 {
		return v
	}
	i, _ := slices.BinarySearch(n.ids, v)
	return uint64(i) + 1
}

func (n *naming) gen(pages []page, r ref) uint64 {
	if n == nil {
		return r.gen
	}
	return pages[r.page].gen - r.gen // 0: the handle is good
}

// encode appends the canonical encoding: equal states, equal bytes. What only
// serves speed (the hash table, list links, counters) follows from the rest
// and is not written.
func (s *state) encode(b []byte, n *naming) []byte {
	num := func(v uint64) { b = binary.AppendUvarint(b, v) }
	sgn := func(v int32) { b = binary.AppendUvarint(b, uint64(v+1)) }
	toks := func(t []int32) {
		num(uint64(len(t)))
		for _, v := range t {
			sgn(v)
		}
	}
	chain := func(l list, next func(int32) int32) {
		num(uint64(l.n))
		for p := l.head; p != none; p = next(p) {
			sgn(n.page(p))
		}
	}
	name := func(sc Scope) {
		num(uint64(len(sc.Tenant)))
		b = append(b, sc.Tenant...)
		num(sc.Session)
	}

	num(uint64(len(s.pages)))
	for i := range s.pages {
		p := int32(i)
		if n != nil {
			p = n.order[i]
		}
		pg, e := &s.pages[p], &s.index.entries[p]
		b = append(b, byte(pg.state))
		sgn(n.slot(pg.owner))
		sgn(pg.pins)
		sgn(pg.uses)
		sgn(pg.filled)
		num(n.id(pg.tag))
		num(pg.sum)
		if n == nil {
			num(pg.gen)
		}
		if pg.state == pageSealed {
			name(e.scope)
		}
		if e.indexed {
			sgn(n.page(e.parent))
			b = append(b, e.key[:8]...)
			toks(s.index.of(p))
		} else {
			num(1<<32 + 1)
		}
	}
	chain(s.free, func(p int32) int32 { return s.pages[p].next })
	chain(s.dirty, func(p int32) int32 { return s.pages[p].next })
	chain(s.index.rest, func(p int32) int32 { return s.index.entries[p].next })

	num(uint64(len(s.leases)))
	for i := range s.leases {
		slot := int32(i)
		if n != nil {
			slot = n.leases[i]
		}
		l := &s.leases[slot]
		b = append(b, byte(l.phase), byte(l.cause), flags(l.private, l.remote, l.requeued, l.released))
		if l.phase == phaseVacant {
			continue
		}
		name(l.scope)
		num(l.session)
		num(n.id(l.request))
		num(n.id(l.nonce))
		num(n.id(l.step))
		sgn(l.prompt)
		sgn(l.limit)
		sgn(l.reserved)
		sgn(l.valid)
		sgn(l.sealed)
		num(uint64(len(l.table)))
		for _, r := range l.table {
			sgn(n.page(r.page))
			num(n.gen(s.pages, r))
		}
		b = append(b, l.key[:8]...)
		toks(l.tail)
		toks(l.pending)
		for _, k := range l.pinned {
			sgn(k)
		}
		b = append(b, l.ticket[:]...)
		if n == nil { // history: nothing is decided by it
			sgn(l.computed)
			sgn(l.reused)
			sgn(l.received)
			num(l.highest)
		}
	}
	sgn(s.peer)
	b = append(b, flags(s.closed))
	if n == nil {
		num(s.minted)
	}
	return b
}

func flags(bits ...bool) byte {
	var f byte
	for i, v := range bits {
		if v {
			f |= 1 << i
		}
	}
	return f
}
