package cpu

import "github.com/cofferdam-ml/cofferdam/internal/backend"

// planeRows are some rows of a plane, for kernels that want equal distances
// between rows: in place where the pages hold f32 and a dense list keeps them
// together, else gathered.
type planeRows struct {
	pages  *pages
	step   *backend.Step
	seq    int32
	plane  int
	list   keyList
	at     int // of the first row in the list
	off    int // of the part that is read, in a row
	width  int // of that part
	stride int // of gathered rows
	data   []float32
}

// keyRows returns the keys and the values of m entries of the list from [at] on.
// Values that stand in the key rows, at the front of their part, share what was
// gathered.
func (b *Backend) keyRows(k *worker, r int32, list keyList, at, m int, h heads) (keys, vals planeRows) {
	keys = planeRows{pages: b.pages, step: b.step, seq: b.step.Seq[r], plane: h.kPlane, list: list, at: at, off: h.keyOff, width: h.qWidth}
	vals = keys
	vals.plane, vals.width = h.vPlane, h.outWidth
	if keys.together() {
		return keys, vals
	}
	keys.gather(&k.keys, m)
	if h.vPlane == h.kPlane {
		vals.data, vals.stride = keys.data, keys.stride
	} else {
		vals.gather(&k.vals, m)
	}
	return keys, vals
}

// together reports whether groups of rows can be read in place.
func (p *planeRows) together() bool {
	spec := p.pages.spec
	return spec.Format == backend.KVF32 && p.list.pos == nil &&
		spec.PageSize%groupRows == 0 && p.width%lanes == 0
}

// gather copies m rows.
func (p *planeRows) gather(buf *[]float32, m int) {
	p.stride = roundUp(p.width, lanes)
	p.data = grow(buf, roundUp(m, groupRows)*p.stride)
	p.copy(p.data, 0, m)
}

// copy writes rows [j, m) to dst, padded with zeros to a multiple of Lanes in
// width and of groupRows in number.
func (p *planeRows) copy(dst []float32, j, m int) {
	stride := roundUp(p.width, lanes)
	for ; j < m; j++ {
		p.pages.read(dst[:p.width], p.step, p.seq, p.list.at(p.at+j), p.plane, p.off)
		clear(dst[p.width:stride])
		dst = dst[stride:]
	}
	clear(dst[:(roundUp(m, groupRows)-m)*stride])
}

// group returns rows [j, j+groupRows), those from m on as zeros, and their
// distance.
func (p *planeRows) group(k *worker, j, m int) (rows []float32, stride int) {
	if p.data != nil {
		return p.data[j*p.stride:], p.stride
	}
	if j+groupRows <= m {
		return p.inPlace(j)
	}
	// The rows that follow in the page are not this reader's.
	rows = grow(&k.keys, groupRows*p.width)
	p.copy(rows, j, m)
	return rows, p.width
}

// groups returns whole groups of rows from j on like group, how far rows are apart and
// how many there are.
func (p *planeRows) groups(k *worker, j, m int) (rows []float32, stride, n int) {
	rows, stride, n = p.run(j, m)
	if p.data != nil {
		return rows, stride, roundUp(n, groupRows)
	}
	if n < groupRows {
		rows, stride = p.group(k, j, m)
		return rows, stride, groupRows
	}
	return rows, stride, n / groupRows * groupRows
}

// run returns rows from j on, how far they are apart and how many follow each
// other, at most up to m.
func (p *planeRows) run(j, m int) (rows []float32, stride, n int) {
	if p.data != nil {
		return p.data[j*p.stride:], p.stride, m - j
	}
	size := p.pages.spec.PageSize
	rows, stride = p.inPlace(j)
	return rows, stride, min(m-j, size-(p.at+j)%size)
}

func (p *planeRows) inPlace(j int) (rows []float32, stride int) {
	return p.pages.floats[p.pages.at(p.step, p.seq, p.at+j, p.plane)+p.off:], p.pages.spec.Planes[p.plane]
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
