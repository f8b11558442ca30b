package cpu

import (
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

const (
	// groupRows is how many weight rows one kernel call multiplies; a tile is
	// computed by groups.
	groupRows = kernel.Rows
	// colTile is how many weight rows are decoded at a time.
	colTile = 2 * groupRows
	// kBlock is how much of them is decoded at a time: with the activations beside
	// it, a block stays in the first-level cache.
	kBlock = 512
	// chunkLines is how many lines share the decoding of a block: their partial
	// sums stay in the first-level cache too.
	chunkLines = 24
	// maxTile bounds the weight rows of a task, and with them how long an abort
	// waits.
	maxTile = 64
)

// tile holds the products of lines with weight rows [n0, n1): those of line i
// with the rows of group g stand at y[(g*lines+i)*groupRows:].
type tile struct {
	y             []float32
	lines, n0, n1 int
}

// each calls f with the products of every line and group: y[j] belongs to weight
// row n+j.
func (t tile) each(f func(line, n int, y []float32)) {
	at := 0
	for n := t.n0; n < t.n1; n += groupRows {
		width := min(groupRows, t.n1-n)
		for i := range t.lines {
			f(i, n, t.y[at:at+width])
			at += groupRows
		}
	}
}

// tiles cuts n weight rows, each of count matrices, into tasks of [per] rows:
// contiguous pieces that are as large as balance allows.
func (b *Backend) tiles(n, count int) (tasks, per int) {
	per = n * count / (16 * len(b.pool.workers)) / colTile * colTile
	per = max(colTile, min(maxTile, per))
	return (n + per - 1) / per, per
}

// products multiplies rows of x with weight rows [n0, n1). The result is valid
// until the next call with the same buffer.
func (k *worker) products(buf *[]float32, w *weight, n0, n1 int, x mat, rows []int32) tile {
	groups := (n1 - n0 + groupRows - 1) / groupRows
	t := tile{grow(buf, groups*len(rows)*groupRows), len(rows), n0, n1}
	for g := 0; g < groups; g += colTile / groupRows {
		n := n0 + g*groupRows
		part := min(colTile/groupRows, groups-g)
		if len(rows) == 1 && part*groupRows <= w.Rows-n && w.readsInPlace(n) {
			k.inPlace(t.y[g*groupRows:], w, n, part, x.row(rows[0], w.Cols))
			continue
		}
		for c := 0; c < len(rows); c += chunkLines {
			lines := rows[c:min(c+chunkLines, len(rows))]
			acc := k.decoded(w, n, part, x, lines)
			for i := range part {
				m := len(lines) * groupRows
				kernel.Sum4(t.y[((g+i)*len(rows)+c)*groupRows:][:m], acc[i*m:][:m])
			}
		}
	}
	return t
}

// decoded returns the partial sums of weight rows from n on, part groups of them,
// by way of decoded blocks. Rows beyond the weight count as zeros.
func (k *worker) decoded(w *weight, n, part int, x mat, lines []int32) []kernel.Sums {
	acc := grow(&k.sums, part*len(lines)*groupRows)
	clear(acc)
	block := grow(&k.weights, colTile*kBlock)
	for k0 := 0; k0 < w.Cols; k0 += kBlock {
		width := min(kBlock, w.Cols-k0)
		whole := width &^ (kernel.Lanes - 1)
		for i := range part * groupRows {
			dst := block[i*kBlock:][:width]
			if n+i < w.Rows {
				w.decode(dst, n+i, k0)
			} else {
				clear(dst)
			}
			if whole < width {
				clear(block[i*kBlock+width:][:whole+kernel.Lanes-width])
			}
		}
		for i := 0; i < len(lines); i += kernel.MaxLines {
			some := lines[i:min(i+kernel.MaxLines, len(lines))]
			for g := range part {
				sums := acc[(g*len(lines)+i)*groupRows:][:len(some)*groupRows]
				from := block[g*groupRows*kBlock:]
				if whole > 0 {
					kernel.MulF32(sums, from, kBlock, k.columns(x, some, w.Cols, k0, whole))
				}
				if whole < width {
					kernel.MulF32(sums, from[whole:], kBlock, k.tail(x, some, w.Cols, k0+whole))
				}
			}
		}
	}
	return acc
}

// columns returns n columns from k0 on of some lines of x.
func (k *worker) columns(x mat, lines []int32, width, k0, n int) [][]float32 {
	for i, r := range lines {
		k.lines[i] = x.row(r, width)[k0 : k0+n]
	}
	return k.lines[:len(lines)]
}

// tail returns the columns from k0 on, fewer than Lanes, padded with zeros.
func (k *worker) tail(x mat, lines []int32, width, k0 int) [][]float32 {
	for i, r := range lines {
		k.tails[i] = [kernel.Lanes]float32{}
		copy(k.tails[i][:], x.row(r, width)[k0:])
		k.lines[i] = k.tails[i][:]
	}
	return k.lines[:len(lines)]
}

// readsInPlace reports whether there is a kernel for the weight as stored, and for
// its scales: no group from row n on may straddle two blocks of them.
func (w *weight) readsInPlace(n int) bool {
	switch w.DType {
	case backend.F32:
		return w.plainFloats() != nil
	case backend.BF16:
		return !w.scaled()
	case backend.F8E4M3:
		return !w.scaled() || w.scales != nil && (w.PerRow() || n%groupRows == 0)
	}
	return false
}

// inPlace multiplies one line with weight rows as they are stored.
func (k *worker) inPlace(y []float32, w *weight, n, groups int, x []float32) {
	cols := w.Cols
	step := kernel.Lanes
	if w.DType == backend.F8E4M3 {
		step = kernel.StepF8
	}
	whole := cols - cols%step
	for g := range groups {
		n := n + g*groupRows
		acc := &k.quad
		*acc = [groupRows]kernel.Sums{}
		switch {
		case whole == 0:
		case w.DType == backend.F32:
			k.lines[0] = x[:whole]
			kernel.MulF32(acc[:], w.floats[n*cols:], cols, k.lines[:1])
		case w.DType == backend.BF16:
			kernel.MulBF16(acc, w.Data[2*n*cols:], 2*cols, x[:whole])
		default:
			kernel.MulF8(acc, w.Data[n*cols:], cols, w.scalesFrom(n), x[:whole])
		}
		if whole < cols {
			k.inPlaceTail(acc, w, n, x, whole)
		}
		kernel.Sum4(y[g*groupRows:][:groupRows], acc[:])
	}
}

// inPlaceTail multiplies the columns from k0 on, decoded and padded with zeros.
func (k *worker) inPlaceTail(acc *[groupRows]kernel.Sums, w *weight, n int, x []float32, k0 int) {
	const room = kernel.StepF8
	width := (len(x) - k0 + kernel.Lanes - 1) / kernel.Lanes * kernel.Lanes
	buf := grow(&k.weights, (groupRows+1)*room)
	clear(buf)
	for i := range groupRows {
		w.decode(buf[i*room:][:len(x)-k0], n+i, k0)
	}
	last := buf[groupRows*room:][:width]
	copy(last, x[k0:])
	k.lines[0] = last
	kernel.MulF32(acc[:], buf, room, k.lines[:1])
}
