package kvcache

// Store is the memory that pages name. kvcache decides who may use which page;
// a Store moves the bytes.
//
// Calls for different pages may come at the same time and from any goroutine,
// also while a step runs. Never does a call come for a page that a step in
// flight reads or writes (except Export and Sum, which only read), nor two
// calls for one page at a time. Page 0, the null page, is never named.
type Store interface {
	// SetTag puts the owner's tag on a page: the lease's nonce while it is
	// written, another nonce once it is sealed.
	SetTag(page int, tag uint64)
	// Scrub makes the content of pages unreadable and clears their tags. The
	// product zeroes; tests poison with NaN.
	Scrub(pages ...int)
	// Export appends the bytes of a page to dst.
	Export(dst []byte, page int) []byte
	// Import replaces the bytes of a page.
	Import(page int, data []byte) error
	// Sum returns a checksum of the bytes of a page.
	Sum(page int) uint64
}
