package kvcache

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Nonce names a hand-off. It is random, minted by the pool that issues the
// ticket, and used once.
type Nonce [16]byte

// Ticket is what a pool that is about to receive a computed prompt gives to
// the peer that computes it. It names everything that the answer must equal.
// Its fields are the pools' own; a host passes it on.
type Ticket struct {
	lease    leaseID // request, and where it is
	nonce    Nonce
	epoch    uint64 // of the issuing pool
	identity Key    // model, format and page size
	scope    Key    // keyed digest of tenant or session
	private  bool   // the scope is one session's
	tokens   int    // exact length of the prompt
	prompt   Key    // keyed digest of the prompt
	pages    []ref  // where the rows go, with generations
}

// Manifest is the answer: what was computed and written under a ticket.
type Manifest struct {
	ticket Ticket   // as the sender understood it
	sender uint64   // epoch of the sending pool
	sums   []uint64 // of the pages as they were sent
	first  int32    // first token sampled by the sender
}

// First is the token that the sender sampled after the prompt.
func (m Manifest) First() int32 { return m.first }

// differs names the first field of the manifest that is not the ticket's.
func (t Ticket) differs(m Manifest) error {
	o := m.ticket
	for _, f := range []struct {
		name string
		same bool
	}{
		{"request", o.lease == t.lease},
		{"nonce", o.nonce == t.nonce},
		{"epoch", o.epoch == t.epoch},
		{"identity", o.identity == t.identity},
		{"scope", o.scope == t.scope && o.private == t.private},
		{"prompt digest", o.prompt == t.prompt},
		{"pages and generations", slices.Equal(o.pages, t.pages)},
	} {
		if !f.same {
			return handoff(f.name+" of the ticket", "another")
		}
	}
	if o.tokens != t.tokens {
		return handoff(fmt.Sprintf("%d tokens", t.tokens), fmt.Sprint(o.tokens))
	}
	return nil
}

func handoff(want, have string) error {
	return &IntegrityError{Kind: ErrHandoff, Position: -1, Want: want, Have: have}
}

// keyed digests labelled bytes under the key that two peers share, so that
// equality can be checked without telling the content.
func keyed(key Nonce, label string, value []byte) Key {
	h := hmac.New(sha256.New, key[:])
	h.Write(field(nil, label, value))
	return Key(h.Sum(nil))
}
