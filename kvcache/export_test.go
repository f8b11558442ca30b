package kvcache

// CheckEveryEvent sets whether new pools check all invariants after every
// event, as they do in this package's tests, and returns what it was.
func CheckEveryEvent(on bool) (was bool) {
	was, checkEveryEvent = checkEveryEvent, on
	return was
}
