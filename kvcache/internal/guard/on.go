//go:build !cofferdam_unsafe

package guard

const (
	Admit = true // the limit that is enforced includes every peer's
	Term  = true // the first terminal cause of a request is final
	Hand  = true // a hand-off commits only on equality of every field
	Mark  = true // readable means written: never a number from a message
	Scrub = true // memory is zeroed before it is leased again
	Quiet = true // nothing is freed while a step, copy or writer holds it
	Gen   = true // a handle of an older lease of the page is refused
	Sum   = true // page checksums, where asked for, are compared
)
