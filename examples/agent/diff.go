package main

import "strings"

// A diffLine is a line of both texts (' '), of the old ('-') or of the new one ('+').
type diffLine struct {
	side byte
	text string
}

const (
	around   = 3       // unchanged lines that are shown around changes
	maxTable = 4 << 20 // cells of the table of common subsequences
)

// diff compares two texts line by line. Far from changes, unchanged lines are
// left out; a line of side 0 stands where some are missing.
func diff(before, after string) []diffLine {
	a, b := lines(before), lines(after)
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []diffLine
	for _, l := range a[:head] {
		all = append(all, diffLine{' ', l})
	}
	all = append(all, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		all = append(all, diffLine{' ', l})
	}
	return nearChanges(all)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// middle compares what is left when equal beginnings and ends are gone, by a
// longest common subsequence.
func middle(a, b []string) (out []diffLine) {
	if len(a)*len(b) > maxTable { // rewritten as a whole, more or less
		for _, l := range a {
			out = append(out, diffLine{'-', l})
		}
		for _, l := range b {
			out = append(out, diffLine{'+', l})
		}
		return out
	}
	longest := make([][]int, len(a)+1) // of a[i:] and b[j:]
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, diffLine{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			out = append(out, diffLine{'-', a[i]})
			i++
		default:
			out = append(out, diffLine{'+', b[j]})
			j++
		}
	}
	return out
}

func nearChanges(all []diffLine) (out []diffLine) {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.side != ' ' {
			for k := max(i-around, 0); k <= min(i+around, len(all)-1); k++ {
				near[k] = true
			}
		}
	}
	for i, l := range all {
		switch {
		case near[i]:
			out = append(out, l)
		case len(out) > 0 && out[len(out)-1].side != 0:
			out = append(out, diffLine{})
		}
	}
	if n := len(out); n > 0 && out[n-1].side == 0 {
		out = out[:n-1]
	}
	return out
}
