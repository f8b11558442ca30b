package kvcache

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
)

// simRow is what the simulation's memory holds in place of a KV row.
type simRow struct {
	session uint64 // of the world, not of the pool: see simulation.sessions
	life    uint64 // generation of the page: how often it was scrubbed
	pos     uint64
	token   uint64
}

var simPoison = simRow{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// gate lets those who wait at it through one by one.
type gate struct {
	mu    sync.Mutex
	shut  bool
	queue []chan struct{}
}

func (g *gate) wait() {
	g.mu.Lock()
	if !g.shut {
		g.mu.Unlock()
		return
	}
	c := make(chan struct{})
	g.queue = append(g.queue, c)
	g.mu.Unlock()
	<-c
}

// pass lets the i-th through; false: nobody waits.
func (g *gate) pass(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		return false
	}
	i %= len(g.queue)
	close(g.queue[i])
	g.queue = slices.Delete(g.queue, i, i+1)
	return true
}

// open lets everybody through who comes from now on.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

// simStore is memory of such rows. Scrubbing, and the reads of a copy engine,
// wait at a gate until the history lets one through.
type simStore struct {
	pageSize int
	rows     []simRow
	life     []uint64
	tags     []uint64

	scrubs gate
	copies gate
	ours   map[uint64]uint64 // session of the pool -> session of the world
}

func newSimStore(pages, pageSize int, gated bool) *simStore {
	return &simStore{
		pageSize: pageSize, scrubs: gate{shut: gated}, copies: gate{shut: true}, ours: map[uint64]uint64{},
		rows: slices.Repeat([]simRow{simPoison}, pages*pageSize), life: make([]uint64, pages), tags: make([]uint64, pages),
	}
}

func (s *simStore) page(p int) []simRow { return s.rows[p*s.pageSize : (p+1)*s.pageSize] }

func (s *simStore) SetTag(page int, tag uint64) { s.tags[page] = tag }

func (s *simStore) Scrub(pages ...int) {
	s.scrubs.wait()
	for _, p := range pages {
		s.tags[p] = 0
		s.life[p]++
		for i := range s.page(p) {
			s.page(p)[i] = simPoison
		}
	}
}

func (s *simStore) Export(dst []byte, page int) []byte {
	s.copies.wait()
	return s.bytes(dst, page)
}

func (s *simStore) bytes(dst []byte, page int) []byte {
	for _, r := range s.page(page) {
		for _, v := range [...]uint64{r.session, r.pos, r.token} {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
	}
	return dst
}

func (s *simStore) Import(page int, data []byte) error {
	if len(data) != s.pageSize*24 {
		return fmt.Errorf("page %d: %d bytes", page, len(data))
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[8*i:]) }
	for i := range s.page(page) {
		s.page(page)[i] = simRow{word(3 * i), s.life[page], word(3*i + 1), word(3*i + 2)}
		if word(3*i) == simPoison.session {
			s.page(page)[i] = simPoison
		}
	}
	return nil
}

func (s *simStore) Sum(page int) uint64 {
	h := fnv.New64a()
	h.Write(s.bytes(nil, page))
	return h.Sum64()
}

// run does on rows what a backend does with an upload: it looks at the tags,
// writes, and lets every row read all that it may. legal judges what is read.
func (s *simStore) run(up Arrays, legal func(q, pos int, r simRow) error) error {
	for q := range up.KVLen {
		table, tags := up.Pages[q*up.Stride:(q+1)*up.Stride], up.PageTag[q*up.Stride:(q+1)*up.Stride]
		for i := 0; i*s.pageSize < int(up.KVLen[q]); i++ {
			if have := s.tags[table[i]]; have != tags[i] {
				return fmt.Errorf("BIND: page %d carries tag %d, the step says %d", table[i], have, tags[i])
			}
		}
		for r := up.QStart[q]; r < up.QStart[q+1]; r++ {
			if up.Seq[r] < 0 {
				continue
			}
			pos := int(up.Pos[r])
			p := int(table[pos/s.pageSize])
			if s.tags[p] != up.Tag[q] {
				return fmt.Errorf("OWN: position %d is written on a page that another may read", pos)
			}
			s.page(p)[pos%s.pageSize] = simRow{s.ours[up.Session[q]], s.life[p], uint64(pos), uint64(up.IDs[r])}
			for at := range pos + 1 {
				p := int(table[at/s.pageSize])
				row := s.page(p)[at%s.pageSize]
				if row.life != s.life[p] {
					return fmt.Errorf("GEN: position %d reads a row of life %d of a page in its life %d", pos, row.life, s.life[p])
				}
				if err := legal(q, at, row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
