package kvcache

// event is one thing that can happen to the core.
type event interface{ on(*core) error }

// The events, in the order of a request's life.
type (
	// submit makes a request known, or refuses it for good. Answers fx.id.
	submit struct {
		session        uint64
		scope          Scope
		prompt, output int
		remote         bool
	}
	// admit reserves a waiting request's pages, after a prefix hit on tokens.
	admit struct {
		id     leaseID
		tokens []int32
	}
	// grow promises a Clamp request the pages of its next rows.
	grow struct {
		id   leaseID
		rows int
	}
	// begin starts a step: all of its entries or none. Answers fx.epoch.
	begin struct{ entries []feed }
	// complete ends a step; answers fx.outcomes, one per arrival.
	complete struct {
		epoch    uint64
		arrivals []arrival
	}
	// abort ends a step that wrote nothing anyone may read.
	abort struct{ epoch uint64 }
	// end gives a request its terminal cause, unless it has one.
	end struct {
		id    leaseID
		cause Cause
	}
	// release says that nobody will ask about the request again.
	release struct{ id leaseID }
	// shut ends all requests of a session, or of the pool (0) for ever.
	shut struct{ session uint64 }

	// reclaim asks for dirty pages to scrub, evicting if there are not enough.
	reclaim struct{ pages int32 }
	// scrubbed gives one back.
	scrubbed struct{ ref ref }
	// summed is the answer to fx.sum.
	summed struct {
		ref ref
		sum uint64
	}
	// corrupt is the answer to fx.verify when a sum differs.
	corrupt struct{ ref ref }
	// forget removes a scope, or everything, from the index.
	forget struct {
		scope Scope
		all   bool
	}

	// peer is the limit that a peer published.
	peer struct{ limit int }
	// issue leases the pages of a remote prompt and pins them for the writer.
	issue struct {
		id     leaseID
		ticket Nonce
	}
	// write is rows arriving under a ticket. Answers fx.imported.
	write struct {
		id     leaseID
		ticket Nonce
		ref    ref
		rows   int32
	}
	// commit ends a hand-off: equality of every field, or failure.
	commit struct {
		id       leaseID
		manifest Manifest
		ticket   Ticket
		sums     []uint64 // of the pages as they are here
		tokens   []int32
	}
	// quiesced says that the peer writes no more under the ticket.
	quiesced struct {
		id     leaseID
		ticket Nonce
	}
	// copying pins what a request may read while it is exported.
	copying struct{ id leaseID }
	// copied ends that.
	copied struct{ id leaseID }
)

// feed is one sequence of a step: tokens for the positions from at on.
type feed struct {
	id     leaseID
	at     int32
	tokens []int32
}

// arrival is what came back for one sequence of a step.
type arrival struct {
	slot           int32
	nonce, session uint64
	epoch          uint64
	rows           int32
}

// effects is what an event asks for and answers. A slice is good until an
// event fills it again.
type effects struct {
	tags     []tagging // Store.SetTag
	scrub    []ref     // Store.Scrub, answered by scrubbed
	sum      []ref     // Store.Sum, answered by summed
	verify   []ref     // Store.Sum must equal the sidecar's, else corrupt
	imported int32     // Store.Import into this page, none: nowhere
	ended    []leaseID // requests that ended or were requeued
	records  []Record  // audit

	id       leaseID
	epoch    uint64
	won      bool    // end: it was the first cause
	cause    Cause   // end: the cause that counts
	refusal  error   // submit, commit: why the request has just failed
	outcomes []error // complete: nil means deliver
}

type tagging struct {
	page int32
	tag  uint64
}

// apply makes one event happen. On error nothing has changed.
func (c *core) apply(e event) (effects, error) {
	// What every turn fills is filled in the same memory.
	c.fx = effects{imported: none, tags: c.fx.tags[:0], sum: c.fx.sum[:0], verify: c.fx.verify[:0], outcomes: c.fx.outcomes[:0]}
	err := e.on(c)
	return c.fx, err
}
