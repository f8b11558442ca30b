package kvcache

// The core is a pure state machine: apply takes an event, changes the state
// and returns what must be done to memory. It starts no goroutine, reads no
// clock and does no I/O, so that every history can be replayed and searched.
//
// An event that is refused with an error has changed nothing.
type core struct {
	cfg      Config
	hash     hasher
	identity []byte
	buf      []byte // scratch for keys
	fx       effects
	s        state
}

// state is a plain value: no maps, no pointers, nothing shared after clone.
type state struct {
	pages       []page
	index       index
	leases      []lease
	free, dirty list // through page.next
	scrubbing   int32
	reserved    int32  // sum over leases
	peer        int32  // smallest limit a peer published, 0: none
	minted      uint64 // last identity given out: requests, nonces, epochs
	closed      bool
}

type pageState uint8

const (
	pageNull        pageState = iota // padding: constant zeros
	pageFree                         // scrubbed
	pageDirty                        // freed, not yet scrubbed
	pageScrubbing                    // handed to the store for scrubbing
	pageQuarantined                  // given back, but a step, copy or writer holds it
	pageWritable                     // owned by one lease
	pageSealed                       // full and read-only; any number of leases of its scope
)

// page is the sidecar of one page.
type page struct {
	state  pageState
	owner  int32  // writable: slot of the lease
	next   int32  // in free or dirty
	pins   int32  // steps, copies and remote writers that hold it
	uses   int32  // sealed: live leases whose table names it
	filled int32  // rows that arrived
	gen    uint64 // rises whenever the page is leased
	tag    uint64 // what the store's sidecar holds
	sum    uint64 // checksum taken at seal
}

// ref is a handle on a page, good while the page keeps the generation.
type ref struct {
	page int32
	gen  uint64
}

type phase uint8

const (
	phaseVacant  phase = iota // the slot is unused
	phaseWaiting              // submitted or requeued: owns nothing
	phaseLive                 // admitted
	phaseEnded                // has its terminal cause
)

// lease is one request: from submission to the release of its handle.
//
// Only the main plane group has a mark. A draft mark would stand beside valid
// and trail it by one, and a recurrent slot would carry the one position it
// stands at; neither is built.
type lease struct {
	phase    phase
	cause    Cause // CauseNone until ended
	scope    Scope
	session  uint64
	request  uint64 // identity of the request
	nonce    uint64 // identity of this admission, and tag of its writable pages
	prompt   int32  // tokens of the prompt
	limit    int32  // positions of prompt and output together
	reserved int32  // pages promised and not yet taken
	valid    int32  // the mark: positions [0, valid) may be read
	table    []ref  // sealed pages first
	key      Key    // of the last sealed page
	sealed   int32  // how many of table are sealed
	tail     []int32
	pending  []int32 // tokens of the rows a step is writing
	step     uint64  // epoch of the step it is in, 0: none
	pinned   [holders]int32
	ticket   Nonce // of the hand-off it waits for

	private  bool // seals nothing, so shares nothing
	remote   bool // the prompt is computed by a peer
	requeued bool // has given way once; is never asked again
	released bool // nobody holds the handle

	computed, reused, received int32  // rows: by steps, from the index, from a peer
	highest                    uint64 // highest generation read
}

// holder is a reason to pin the first pages of a lease's table.
type holder uint8

const (
	byStep   holder = iota // a step reads and writes them
	byCopy                 // they are being exported
	byWriter               // a peer writes them
	holders
)

// leaseID names a request: the slot alone may have been reused.
type leaseID struct {
	slot    int32
	request uint64
}

func newCore(cfg Config, seed uint64) *core {
	c := &core{cfg: cfg, hash: sha, identity: identity(cfg)}
	c.s = state{
		pages:  make([]page, cfg.Pages),
		index:  newIndex(cfg.Pages, cfg.PageSize),
		free:   emptyList(),
		dirty:  emptyList(),
		minted: seed,
	}
	for i := range c.s.pages {
		c.s.pages[i] = page{state: pageNull, owner: none, next: none}
		if i != NullPage {
			c.push(&c.s.free, int32(i), pageFree)
		}
	}
	return c
}

// mint gives out an identity that was never given out before.
func (c *core) mint() uint64 {
	c.s.minted++
	return c.s.minted
}

func (c *core) limits() Limits {
	return limitsOf(c.cfg.Context, c.cfg.Pages, c.cfg.PageSize, c.cfg.Slack, int(c.peerLimit()))
}

// pagesFor returns how many pages hold rows positions.
func (c *core) pagesFor(rows int32) int32 {
	n := int32(c.cfg.PageSize)
	return (rows + n - 1) / n
}

// lease returns the lease of a handle, or nil once the slot serves another.
func (c *core) lease(id leaseID) *lease {
	if id.slot < 0 || int(id.slot) >= len(c.s.leases) {
		return nil
	}
	if l := &c.s.leases[id.slot]; l.phase != phaseVacant && l.request == id.request {
		return l
	}
	return nil
}

// room is how many pages can still be promised: those that are or can be made
// free without waiting for anybody, less the promises made.
func (c *core) room() int32 {
	s := &c.s
	return s.free.n + s.dirty.n + s.scrubbing + s.index.rest.n - s.reserved
}
