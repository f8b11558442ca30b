package glm

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Any split of a text gives the text before the earliest stop string.
func TestStopper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringMatching(`[ab]{0,12}`)
		text := letters.Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,4}`), 0, 3).Draw(t, "stops")
		want, wantStopped := text, false
		for end := 0; end <= len(text) && !wantStopped; end++ { // the stop that completes first
			best := -1
			for _, s := range stops {
				if i := strings.Index(text[:end], s); i >= 0 && (best < 0 || i < best) {
					best = i
				}
			}
			if best >= 0 {
				want, wantStopped = text[:best], true
			}
		}
		s := stopper{stops: stops}
		var have strings.Builder
		stopped := false
		for rest := text; rest != "" && !stopped; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			out, now := s.push(rest[:n])
			rest = rest[n:]
			have.WriteString(out)
			stopped = now
		}
		if !stopped {
			have.WriteString(s.flush())
		}
		if have.String() != want || stopped != wantStopped {
			t.Fatalf("text %q, stops %q: %q stopped %v, want %q stopped %v", text, stops, have.String(), stopped, want, wantStopped)
		}
	})
}
