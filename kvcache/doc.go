// Package kvcache decides which page of KV memory belongs to which request, up
// to which position it is valid, and who may share it. It owns no bytes: a
// [Store] is given to it.
//
// The promise is one sentence: a request can only ever read KV rows that it
// wrote itself or lawfully inherited, and every attempt to do otherwise fails
// with a typed error before a token is produced.
//
// # Four types
//
// A [Pool] holds the pages. A [Session] is a conversation; between requests it
// owns nothing. A [Lease] is one admitted request, with its reservation, its
// pages and its mark. A [Step] is one batch in flight, and the only way to a
// page number:
//
//	l, err := s.Admit(ctx, kvcache.Request{Tokens: prompt, MaxTokens: 256})
//	defer l.End(kvcache.CauseStop, nil)            // the first cause wins
//	step, err := pool.Begin([]kvcache.Entry{{Lease: l, At: l.Valid(), Tokens: chunk}})
//	a := step.Arrays()                             // pad and permute a copy
//	err = step.Check(uploaded)                     // always, before the upload
//	errs := step.Complete(results)                 // marks rise; or step.Abort()
//
// A loop of steps keeps a [StepMemory] and begins them with [Pool.BeginIn], which
// allocates nothing.
//
// # Six guards
//
// Each stops the founding leak, a request that read pages which nobody had
// written for it, or its mirror image, a write into pages that have gone to
// somebody else.
//
//  1. Admission. [Pool.Limits] is one number: checked at start, advertised,
//     enforced. Strict admission reserves prompt, output and draft slack before
//     any work; the prompt is never cut.
//  2. One terminal state. The first [Cause] stays, whatever comes later.
//  3. Hand-off equals ticket. [Lease.Commit] takes a [Manifest] only on
//     equality of every field with the [Ticket].
//  4. Mark and generation. A reader sees positions [0, mark); the mark rises
//     only by rows that arrived. A page's generation rises on every lease, so a
//     late reader or writer is refused. The leak had the right generation and
//     no mark; the late write has the right mark and an old generation.
//  5. Scrub. A freed page is scrubbed before it can be leased again.
//  6. Binding. [Step.Check] compares the arrays of the upload with the page
//     sidecars; [Step.Complete] compares the echo of the results.
//
// # The life of a page
//
//	null                       page 0: padding, constant
//	free ----- Begin --------> writable       owned by one lease, tag: its nonce
//	writable - full, written -> sealed        read-only, shared in its scope, own tag
//	sealed --- last user ends > resting       in the prefix index, evictable
//	resting -- hit -----------> sealed
//	writable, sealed, resting > dirty         given back, forgotten or evicted
//	any, while pinned --------> quarantined   until the step, copy or writer ends
//	quarantined - last unpin -> dirty
//	dirty ---- Store.Scrub ---> free
//
// # Sharing
//
// Only full pages of written tokens are sealed, as soon as they are full, and
// found again by a hash over tenant, model, format and all tokens so far; the
// tokens are compared as well. A hit ends at n-1: at least one token of a
// prompt is computed. If two requests of a tenant compute the same page, the
// second reads the first one's from then on.
//
// The scope of a page is its tenant. Without a tenant it is the session: a
// later turn finds its own pages, no other session ever does, and Close
// forgets them. Resting pages are pinned by nobody and go, least recently used
// first, when a promise needs them.
//
// # The core
//
// All of this is a state machine without goroutines, clock or I/O, in the
// files core*.go: apply takes one event and returns what must be done to
// memory. Its state is a plain value. [Pool] is the shell around it: lock,
// queue, deadlines and calls of the store.
//
// # Proof
//
// Four kinds of tests hold the promise, and each is shown to notice when it
// does not hold:
//
//   - A search of all histories of a small world: two peers, three leases, a
//     copy engine that writes late. Every invariant holds in every state.
//     go test -run SearchTwoPeers -states 5000000 -timeout 1h walks further.
//   - A simulation of two pools over memory whose rows name their writer. A
//     failing seed is shrunk to its shortest history.
//     go test -run Simulation -seeds 1000000 -timeout 0 runs a million.
//   - A matrix of guards, under the build tag cofferdam_unsafe: each guard alone
//     stops the leak; without all of them the leak is seen.
//   - Planted bugs: dozens of mistakes of one rule each, compiled in one after
//     another, each caught by a named test.
//
// RESULT.md says how far the long runs went and what the checks cost.
//
// # Caveats
//
// Ownership: every Lease needs an End, every Step a Complete or an Abort;
// [Pool.Close] waits for steps in flight. Arrays belong to the step: read or
// copy them. Tokens given to Admit and Readmit are copied.
//
// Threads: every method may be called from any goroutine. Admit and Readmit
// wait, at most QueueWait; Begin may wait for a batch of pages to be scrubbed;
// Forget waits for running requests of its tenant. One goroutine per pool
// scrubs freed pages; it ends with Close. Config.Audit is called with the pool
// locked and must not call back.
//
// Lifetimes: a page number is good from Begin to Complete or Abort of its
// step, whatever happens to session or lease meanwhile. Only Check, Arrays and
// the store ever see it.
//
// Not built: marks of draft planes and slots of recurrent state. A draft mark
// would stand beside the main one and trail it by one; a slot carries the one
// position it stands at.
package kvcache
