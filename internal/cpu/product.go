package cpu

import (
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/cpu/kernel"
)

// Products with stored weights are computed by groups of weight rows against a few
// lines of activations, along k. They are not repacked: vectors run along k on both
// sides, which reaches the multiplier's limit from rows as they are and makes one row
// and a batch the same kernel, so that row invariance needs no proof.
const (
	// groupRows is how many weight rows one kernel call multiplies.
	groupRows = kernel.Rows
	// fewLines bounds the lines that share one pass over each group's whole rows:
	// the weights come from memory, everything else from the nearest caches.
	fewLines = 8
	// fewBlock is how many columns of a group are decoded at a time where they
	// cannot be multiplied as stored.
	fewBlock = 512
	// For more lines, manyRows weight rows are decoded kBlock columns at a time;
	// lines pass by, so the block stays in the first-level cache.
	manyRows = 4 * groupRows
	kBlock   = 256
	// chunkLines is how many lines share the decoding of a block: their partial
	// sums stay in the second-level cache.
	chunkLines = 128
	// tileUnit is what the weight rows of a task are a multiple of: of whole groups
	// of activations, where they are rounded for the next product, and so of panels.
	tileUnit = kernel.Group
	// The most weight rows of a task, and with them how long an abort waits: for many
	// lines; for few, which are bound by memory, and memory is slow at the beginning of
	// a piece; and for the longest of the pieces of a product with few.
	maxTile  = 64
	fewTile  = 256
	longTile = 1024
)

// tile holds the products of lines with weight rows [n0, n1), line after line;
// each has room for whole panels.
type tile struct {
	y             []float32
	lines, n0, n1 int
}

func newTile(buf *[]float32, lines, n0, n1 int) tile {
	return tile{grow(buf, lines*roundUp(n1-n0, kernel.PanelRows)), lines, n0, n1}
}

func (t tile) stride() int { return roundUp(t.n1-t.n0, kernel.PanelRows) }

// line returns the products of line i: y[j] belongs to weight row n0+j.
func (t tile) line(i int) []float32 {
	return t.y[i*t.stride():][:t.n1-t.n0]
}

// tiles cuts n weight rows, each of count matrices, into tasks of [per] rows for
// some lines: contiguous pieces that are as large as balance allows.
func (b *Backend) tiles(n, count, lines int) (tasks, per int) {
	share, most := 16, maxTile // tasks of a worker
	if lines <= fewLines {
		share, most = 4, fewTile
	}
	per = n * count / (share * len(b.pool.workers)) / tileUnit * tileUnit
	per = max(tileUnit, min(most, per))
	return (n + per - 1) / per, per
}

// pieces returns where the tasks of n weight rows begin, and n: those of tiles for many
// lines, and for few lines a piece for each worker from half of the rows, then from
// half of what is left, and so on, none longer than longest. Memory is read in long
// runs, and in the end nobody waits long.
func (b *Backend) pieces(n, lines, longest int) []int {
	bounds, workers := append(b.bounds[:0], 0), len(b.pool.workers)
	_, per := b.tiles(n, 1, lines)
	for at := 0; at < n; {
		size := per
		if lines <= fewLines {
			size = max(tileUnit, min(longest, (n-at)/(2*workers)/tileUnit*tileUnit))
		}
		for range workers {
			if at < n {
				at = min(at+size, n)
				bounds = append(bounds, at)
			}
		}
	}
	b.bounds = bounds
	return bounds
}

// products multiplies lines with weight rows [n0, n1); n0 begins a panel. The
// result is valid until the next call with the same buffer.
func (k *worker) products(buf *[]float32, w *weight, n0, n1 int, l lines) tile {
	x, rows := l.mat, l.rows
	groups := (n1 - n0 + groupRows - 1) / groupRows
	t := newTile(buf, len(rows), n0, n1)
	if w.panels != nil {
		w.panels.multiply(t, l)
		return t
	}
	if len(rows) <= fewLines {
		for g := range groups {
			acc := k.few(w, n0+g*groupRows, x, rows)
			kernel.Sum4(t.y[g*groupRows:], t.stride(), acc)
		}
		return t
	}
	for g := 0; g < groups; g += manyRows / groupRows {
		part := min(manyRows/groupRows, groups-g)
		for c := 0; c < len(rows); c += chunkLines {
			lines := rows[c:min(c+chunkLines, len(rows))]
			acc := k.many(w, n0+g*groupRows, part, x, lines)
			for i := range part {
				m := len(lines) * groupRows
				kernel.Sum4(t.y[c*t.stride()+(g+i)*groupRows:], t.stride(), acc[i*m:][:m])
			}
		}
	}
	return t
}

// few returns the partial sums of the group of weight rows that starts at n: as
// stored where there is a kernel for that, the rest decoded.
func (k *worker) few(w *weight, n int, x mat, lines []int32) []kernel.Sums {
	acc := grow(&k.sums, len(lines)*groupRows)
	clear(acc)
	cols, k0 := w.Cols, 0
	if n+groupRows <= w.Rows {
		k0 = k.inPlace(acc, w, n, x, lines)
	}
	block := grow(&k.weights, groupRows*fewBlock)
	for ; k0 < cols; k0 += fewBlock {
		k1 := min(k0+fewBlock, cols)
		w.block(block, fewBlock, n, k0, k1)
		k.multiply(acc, 0, block, fewBlock, 1, x, lines, cols, k0, k1)
	}
	return acc
}

// inPlace multiplies columns [0, k0) with a group of weight rows as stored and
// returns k0, which is 0 where there is no kernel for them.
func (k *worker) inPlace(acc []kernel.Sums, w *weight, n int, x mat, lines []int32) (k0 int) {
	cols, step, most := w.Cols, lanes, kernel.MaxLines
	switch {
	case w.DType == backend.F32 && w.plainFloats() != nil:
	case w.DType == backend.BF16 && !w.scaled():
	case w.DType == backend.F8E4M3 && len(lines) <= kernel.MaxLinesF8 && w.scalesInGroups(n):
		step, most = kernel.StepF8, kernel.MaxLinesF8
	default:
		return 0
	}
	k0 = cols - cols%step
	if k0 == 0 {
		return 0
	}
	for i := 0; i < len(lines); i += most {
		some := lines[i:min(i+most, len(lines))]
		sums, in := acc[i*groupRows:][:len(some)*groupRows], k.columns(x, some, cols, 0, k0)
		switch w.DType {
		case backend.F32:
			kernel.MulF32(sums, 0, w.floats[n*cols:], cols, 1, in)
		case backend.BF16:
			kernel.MulBF16(sums, w.Data[2*n*cols:], 2*cols, in)
		default:
			kernel.MulF8(sums, w.Data[n*cols:], cols, w.scalesFrom(n, 0), in)
		}
	}
	return k0
}

// scalesInGroups reports whether the scales can be read in place and the group of
// rows from n on does not straddle two blocks of them.
func (w *weight) scalesInGroups(n int) bool {
	return !w.scaled() || w.scales != nil && (w.PerRow() || n%groupRows == 0)
}

// many returns the partial sums of groups of weight rows from n on, by way of
// decoded blocks.
func (k *worker) many(w *weight, n, groups int, x mat, lines []int32) []kernel.Sums {
	each := len(lines) * groupRows
	acc := grow(&k.sums, groups*each)
	clear(acc)
	block := grow(&k.weights, groups*groupRows*kBlock)
	for k0 := 0; k0 < w.Cols; k0 += kBlock {
		k1 := min(k0+kBlock, w.Cols)
		for g := range groups {
			w.block(block[g*groupRows*kBlock:], kBlock, n+g*groupRows, k0, k1)
		}
		k.multiply(acc, each, block, kBlock, groups, x, lines, w.Cols, k0, k1)
	}
	return acc
}

// block decodes columns [k0, k1) of a group of rows, stride apart, and pads them
// with zeros to a multiple of Lanes. Rows beyond the weight are zeros too.
func (w *weight) block(dst []float32, stride, n, k0, k1 int) {
	width := k1 - k0
	if w.DType == backend.F8E4M3 && width%kernel.StepF8 == 0 && n+groupRows <= w.Rows && w.scalesInGroups(n) {
		kernel.DecodeGroupF8(dst, stride, w.Data[n*w.Cols+k0:], w.Cols, w.scalesFrom(n, k0), width)
		return
	}
	for i := range groupRows {
		row := dst[i*stride:][:roundUp(width, lanes)]
		clear(row[width:])
		if n+i < w.Rows {
			w.decode(row[:width], n+i, k0)
		} else {
			clear(row)
		}
	}
}

// multiply adds the products of decoded groups, whose sums are each apart, with
// columns [k0, k1) of lines.
func (k *worker) multiply(acc []kernel.Sums, each int, block []float32, stride, groups int, x mat, lines []int32, cols, k0, k1 int) {
	whole := (k1 - k0) &^ (lanes - 1)
	for i := 0; i < len(lines); i += kernel.MaxLines {
		some := lines[i:min(i+kernel.MaxLines, len(lines))]
		sums := acc[i*groupRows:]
		if whole > 0 {
			kernel.MulF32(sums, each, block, stride, groups, k.columns(x, some, cols, k0, whole))
		}
		if k0+whole < k1 {
			kernel.MulF32(sums, each, block[whole:], stride, groups, k.tail(x, some, cols, k0+whole))
		}
	}
}

// small returns the products of one decoded group with the first lines of x:
// [lines, groupRows]. They are valid until the next call.
func (k *worker) small(block []float32, stride int, x mat, lines, cols int) []float32 {
	y := grow(&k.y, lines*groupRows)
	if cols%lanes == 0 {
		kernel.Dots(y, groupRows, x.data, x.stride, lines, block, stride, groupRows, cols)
		return y
	}
	acc := grow(&k.sums, lines*groupRows)
	clear(acc)
	k.multiply(acc, 0, block, stride, 1, x, k.firstLines(lines), cols, 0, cols)
	kernel.Sum4(y, groupRows, acc)
	return y
}

// columns returns n columns from k0 on of some lines of x.
func (k *worker) columns(x mat, lines []int32, cols, k0, n int) [][]float32 {
	for i, r := range lines {
		k.lines[i] = x.row(r, cols)[k0 : k0+n]
	}
	return k.lines[:len(lines)]
}

// tail returns the columns from k0 on, fewer than Lanes, padded with zeros.
func (k *worker) tail(x mat, lines []int32, cols, k0 int) [][]float32 {
	for i, r := range lines {
		k.tails[i] = [lanes]float32{}
		copy(k.tails[i][:], x.row(r, cols)[k0:])
		k.lines[i] = k.tails[i][:]
	}
	return k.lines[:len(lines)]
}
