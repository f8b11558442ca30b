package cpu

// Absorbed MLA of a few rows is divided by keys. All heads share one latent row a key,
// as wide as the keys of several heads elsewhere, and it should come from memory once.
// Blocks of keys are attended over side by side, all heads against each, and kept; then
// each head combines its blocks in ascending order, which gives the bits of one block
// after another.

// waveBlocks is how many blocks are kept at once, of all rows together.
const waveBlocks = 64

// attendBlocks is latentPhase for a few rows.
func (b *Backend) attendBlocks(m mlaRows) {
	tasks := 4 * len(b.pool.workers) // for balance
	room := max(waveBlocks, tasks)
	size := m.op.Heads * (m.op.Latent + 2)
	data, ok := b.temp(&b.tmp.blocks, (len(m.rows)+room)*size)
	if !ok {
		return
	}
	p := &b.phases.blocks
	*p = blocksPhase{mlaRows: m, rowBlocks: p.rowBlocks[:0], data: data, size: size}
	for i, r := range m.rows {
		list, ok := b.listOf(m.op.Sel, r)
		m.report(i, list, ok)
		p.rowBlocks = append(p.rowBlocks, rowBlocks{list: list, left: (list.n + keyBlock - 1) / keyBlock})
	}
	fold := &b.phases.fold
	*fold = foldPhase{p}
	for n := p.next(room); ; n = p.next(room) {
		p.groups = 1
		if n > 0 && n < tasks {
			p.groups = min(m.op.Heads, tasks/n)
		}
		b.pool.run(n*p.groups, p)
		b.pool.run(len(m.rows)*m.op.Heads, fold)
		if p.left() == 0 || b.pool.stopped() {
			return
		}
	}
}

// rowBlocks are the blocks of a row: those combined already, the wave's, and the rest.
type rowBlocks struct {
	list          keyList
	done, n, left int
	at            int // where the wave's are kept
}

// blocksPhase attends over blocks of keys, for some heads a task.
type blocksPhase struct {
	mlaRows
	rowBlocks []rowBlocks
	data      []float32 // [rows + room, size]: what came before the wave, a row, then its blocks
	size      int       // of a block: the heads' maxima and sums, then their outputs
	groups    int       // of heads
}

// next chooses the blocks of a wave, as many of each row that has any left, and returns
// their number.
func (p *blocksPhase) next(room int) int {
	rows := 0
	for i := range p.rowBlocks {
		if p.rowBlocks[i].left > 0 {
			rows++
		}
	}
	n := 0
	for i := range p.rowBlocks {
		r := &p.rowBlocks[i]
		r.done += r.n
		r.n, r.at = min(r.left, room/max(rows, 1)), len(p.rows)+n
		r.left -= r.n
		n += r.n
	}
	return n
}

// left returns how many blocks are left after the wave.
func (p *blocksPhase) left() (n int) {
	for _, r := range p.rowBlocks {
		n += r.left
	}
	return n
}

// part returns heads [first, last) of what is kept in a place.
func (p *blocksPhase) part(place, first, last int) parts {
	at, heads, width := p.data[place*p.size:][:p.size], p.op.Heads, p.op.Latent
	return parts{
		max: at[first:last], sum: at[heads+first : heads+last],
		out: at[2*heads+first*width : 2*heads+last*width], width: width,
	}
}

func (p *blocksPhase) task(k *worker, task int) {
	g, i, block := task%p.groups, 0, task/p.groups
	for block >= p.rowBlocks[i].n {
		block -= p.rowBlocks[i].n
		i++
	}
	r := &p.rowBlocks[i]
	first, last := p.op.Heads*g/p.groups, p.op.Heads*(g+1)/p.groups
	part := p.part(r.at+block, first, last)
	p.b.attendBlock(k, p.rows[i], r.list, (r.done+block)*keyBlock, p.of(i, first, last), &part)
}

// foldPhase combines the blocks of a wave, a row's head a task, and after the last
// writes the output in place of the query.
type foldPhase struct{ *blocksPhase }

func (p *foldPhase) task(_ *worker, task int) {
	i, h := task%len(p.rows), task/len(p.rows)
	r := &p.rowBlocks[i]
	out := p.a.row(int32(i), p.a.stride)[h*p.width:][:p.op.Latent]
	if r.n == 0 { // its last wave has been, or there is none
		if r.list.n == 0 {
			clear(out)
			p.round(i, h)
		}
		return
	}
	total, next := p.part(i, h, h+1), r.at
	if r.done == 0 { // nothing came before
		total, next = p.part(r.at, h, h+1), r.at+1
	}
	for ; next < r.at+r.n; next++ {
		block := p.part(next, h, h+1)
		total.add(0, &block)
	}
	if r.left > 0 {
		if r.done == 0 {
			kept := p.part(i, h, h+1)
			copy(kept.max, total.max)
			copy(kept.sum, total.sum)
			copy(kept.out, total.out)
		}
		return
	}
	total.normalise(out, 0, r.list.n)
	p.round(i, h)
}
