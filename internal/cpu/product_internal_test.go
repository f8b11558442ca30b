package cpu

import "testing"

// Pieces follow each other from the first row to the last, each begins a panel and a
// group of what is rounded next, and none is so long that an abort would wait for it.
func TestPieces(t *testing.T) {
	for _, threads := range []int{1, 2, 7} {
		b := Open(threads)
		defer b.Close()
		for _, n := range []int{1, 31, 32, 33, 576, 2048, 6144, 154880} {
			for _, lines := range []int{1, fewLines, fewLines + 1, 512} {
				most := maxTile
				if lines <= fewLines {
					most = longTile
				}
				bounds := b.pieces(n, lines, longTile)
				if bounds[0] != 0 || bounds[len(bounds)-1] != n {
					t.Fatalf("%d rows, %d lines, %d threads: %v", n, lines, threads, bounds)
				}
				for i, at := range bounds[1:] {
					from := bounds[i]
					if from%tileUnit != 0 || at <= from || at-from > most {
						t.Fatalf("%d rows, %d lines, %d threads: a piece from %d to %d", n, lines, threads, from, at)
					}
				}
				if len(bounds)-1 < min(threads, (n+tileUnit-1)/tileUnit) {
					t.Fatalf("%d rows, %d lines: %d pieces for %d threads", n, lines, len(bounds)-1, threads)
				}
			}
		}
	}
}
