package glm

import "strings"

// stopper finds stop strings in text that arrives in pieces. Text that may be
// the beginning of one is held back.
type stopper struct {
	stops []string
	held  string
}

// push returns the text that is certain and whether a stop string was met; what
// follows one is dropped.
func (s *stopper) push(text string) (out string, stopped bool) {
	if len(s.stops) == 0 {
		return text, false
	}
	s.held += text
	// The one that is complete first counts, so that the split does not.
	first, end := -1, len(s.held)+1
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (i+len(stop) < end || i+len(stop) == end && i < first) {
			first, end = i, i+len(stop)
		}
	}
	if first >= 0 {
		out, s.held = s.held[:first], ""
		return out, true
	}
	keep := 0
	for _, stop := range s.stops {
		keep = max(keep, overlap(s.held, stop))
	}
	out, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return out, false
}

// flush returns what was held back.
func (s *stopper) flush() string {
	out := s.held
	s.held = ""
	return out
}

// overlap returns the length of the longest proper prefix of stop that text ends with.
func overlap(text, stop string) int {
	for n := min(len(text), len(stop)-1); n > 0; n-- {
		if strings.HasSuffix(text, stop[:n]) {
			return n
		}
	}
	return 0
}
