package cpu

// Absorbed MLA of a few rows is divided by keys: every latent row is as long as the
// keys of all heads together are elsewhere, so that it must come from memory once, for
// all heads. Blocks of keys are attended over side by side and kept, then each head
// combines its blocks in ascending order, which are the bits of one block after
// another.

// waveTasks is how many blocks are kept at once, of all rows together.
const waveTasks = 64

// attendBlocks is latentPhase for a few rows.
func (b *Backend) attendBlocks(m mlaRows) {
	wave := max(1, max(waveTasks, 4*len(b.pool.workers))/len(m.rows))
	size := m.op.Heads * (m.op.Latent + 2)
	data, ok := b.temp(&b.tmp.blocks, len(m.rows)*(1+wave)*size)
	if !ok {
		return
	}
	p := &b.phases.blocks
	*p = blocksPhase{mlaRows: m, lists: p.lists[:0], data: data, size: size, wave: wave}
	most := 0
	for i, r := range m.rows {
		list, ok := b.listOf(m.op.Sel, r)
		m.report(i, list, ok)
		p.lists = append(p.lists, list)
		most = max(most, list.n)
	}
	fold := &b.phases.fold
	for {
		n := min(wave, (most+keyBlock-1)/keyBlock-p.first)
		p.groups = 1
		if tasks := 4 * len(b.pool.workers); len(m.rows)*n < tasks {
			p.groups = min(m.op.Heads, tasks/max(1, len(m.rows)*n))
		}
		b.pool.run(len(m.rows)*n*p.groups, p)
		*fold = foldPhase{p, n}
		b.pool.run(len(m.rows)*m.op.Heads, fold)
		if p.first += n; p.first*keyBlock >= most || b.pool.stopped() {
			return
		}
	}
}

// blocksPhase attends over blocks of keys, for some heads a task.
type blocksPhase struct {
	mlaRows
	lists  []keyList // of the rows
	data   []float32 // [rows, 1+wave, size]: what came before the wave, then its blocks
	size   int       // of a block: the heads' maxima and sums, then their outputs
	wave   int
	first  int // block of the wave
	groups int // of heads
}

// part returns heads [first, last) of what is kept in a place of rows[i].
func (p *blocksPhase) part(i, place, first, last int) parts {
	at, heads, width := p.data[(i*(1+p.wave)+place)*p.size:][:p.size], p.op.Heads, p.op.Latent
	return parts{
		max: at[first:last], sum: at[heads+first : heads+last],
		out: at[2*heads+first*width : 2*heads+last*width], width: width,
	}
}

func (p *blocksPhase) task(k *worker, task int) {
	g := task % p.groups
	task /= p.groups
	i, place := task%len(p.rows), task/len(p.rows)
	list, at := p.lists[i], (p.first+place)*keyBlock
	if at >= list.n {
		return
	}
	first, last := p.op.Heads*g/p.groups, p.op.Heads*(g+1)/p.groups
	part := p.part(i, 1+place, first, last)
	p.b.attendBlock(k, p.rows[i], list, at, p.of(i, first, last), &part)
}

// foldPhase combines the blocks of a wave, a row's head a task, and after the last
// writes the output in place of the query.
type foldPhase struct {
	*blocksPhase
	n int // blocks of the wave
}

func (p *foldPhase) task(_ *worker, task int) {
	i, h := task%len(p.rows), task/len(p.rows)
	list := p.lists[i]
	blocks := (list.n + keyBlock - 1) / keyBlock
	if p.first >= max(blocks, 1) {
		return // its last wave has been
	}
	places := min(p.n, blocks-p.first)
	place := 0
	if p.first == 0 {
		place = 1 // nothing came before
	}
	total := p.part(i, place, h, h+1)
	for next := place + 1; next <= places; next++ {
		block := p.part(i, next, h, h+1)
		total.add(0, &block)
	}
	if p.first+places < blocks {
		if place != 0 {
			kept := p.part(i, 0, h, h+1)
			copy(kept.max, total.max)
			copy(kept.sum, total.sum)
			copy(kept.out, total.out)
		}
		return
	}
	total.divide(p.a.row(int32(i), p.a.stride)[h*p.width:][:p.op.Latent], 0, list.n)
	p.round(i, h)
}
