package kvcache

import "fmt"

// AuditEvent says what a [Record] is about.
type AuditEvent uint8

const (
	AuditAdmitted  AuditEvent = iota + 1
	AuditRefused              // above a limit: before any work
	AuditRequeued             // pages given to an older request
	AuditEnded                // the terminal cause
	AuditCommitted            // a hand-off arrived whole
	AuditForgotten            // a tenant's, a session's or all prefixes
	AuditIntegrity            // a guard refused a read or write
	audits
)

func (e AuditEvent) String() string {
	names := [audits]string{"", "admitted", "refused", "requeued", "ended", "committed", "forgotten", "integrity"}
	if e > 0 && e < audits {
		return names[e]
	}
	return fmt.Sprintf("AuditEvent(%d)", uint8(e))
}

// Record is one audit line. It holds no token and no text of a prompt, so that
// "which answers could have been touched?" is a query over records, which any
// number of people may read. Counts are tokens unless said otherwise.
type Record struct {
	Event   AuditEvent
	Request uint64 // unique in the pool's lifetime; 0: none
	Session uint64
	Tenant  string // digest of the tenant's name; "": private to the session

	Prompt   int
	Computed int // rows that steps of this pool computed
	Reused   int // rows that came from sealed pages of the same scope
	Received int // rows that came from a peer
	Limit    Limits
	Reserved int    // pages promised and not yet taken
	Pages    int    // pages owned or shared
	Highest  uint64 // highest page generation that any of its steps read
	Cause    Cause
	Err      error // refusals and integrity: the typed error
}

func (c *core) record(r Record) { c.fx.records = append(c.fx.records, r) }

func (c *core) recordLease(e AuditEvent, l *lease) {
	c.record(Record{
		Event: e, Request: l.request, Session: l.session,
		Prompt: int(l.prompt), Computed: int(l.computed), Reused: int(l.reused), Received: int(l.received),
		Limit: c.limits(), Reserved: int(l.reserved), Pages: len(l.table), Highest: l.highest,
		Cause: l.cause, Err: c.fx.refusal,
	})
}
