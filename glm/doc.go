// Package glm runs GLM mixture-of-experts models inside a Go program.
//
// # Four nouns
//
// A [Model] is weights, a [KVPool] is memory, a [Session] is a conversation, a
// [Request] is what to answer.
//
//	m, err := glm.Open(ctx, "GLM-4.7-Flash", glm.Config{})
//	pool, err := m.NewKVPool(glm.PoolConfig{Tokens: 65536, Context: 32768})
//	s, err := pool.NewSession(glm.SessionConfig{Tenant: "customer-17"})
//	for ev, err := range s.Generate(ctx, glm.Request{Messages: history}) {
//		if err != nil {
//			return err
//		}
//		switch ev := ev.(type) {
//		case glm.TextDelta:
//			fmt.Print(ev.Text)
//		case glm.Finish:
//			history = append(history, ev.Message)
//		}
//	}
//
// [Inspect] says what a checkpoint holds and what it would cost to run, without
// loading it.
//
// # Conversations
//
// Every request brings the whole conversation; the session computes only what is
// new. Append [Finish.Message] as it is: it carries the ids that were sampled,
// so that the next turn feeds exactly these and finds their keys in the pool.
// An edited message is encoded anew.
//
// Text in messages, tool results, names and arguments can never become a control
// token of the model, whatever it spells.
//
// # What cannot happen
//
// A prompt is never shortened. A request that does not fit the model or the pool
// is refused before any work, with both numbers; one that does not fit now waits
// for a bounded time. A session reads keys that it wrote itself or that its own
// tenant's earlier requests wrote, and nothing else: package kvcache says how six
// guards see to that. A session without a tenant shares with nobody.
//
// # Errors
//
// Errors are values with numbers in them. Test the kind with errors.Is against
// the sentinels of this package, get the detail with errors.As, and answer over
// HTTP with [Code] and [HTTPStatus]. No error, log line or audit line holds text
// of a prompt or an answer, or ids.
//
// # Numbers
//
// On the CPU a row's bits depend on its own inputs only: never on the batch, the
// chunk, the neighbours or the number of threads. So the same request with the
// same seed gives the same answer in a full pool as alone, and with a warm prefix
// as cold.
//
// # Weights
//
// Weights are computed with as they are stored, or as int8 or int4, which take a
// half and a quarter of bfloat16's memory and, since a token is as fast as its
// weights are read, of its time. [Config.Weights] says which, and what stays at
// more bits is settled by what it decides. Conversion reads all of a checkpoint;
// [Config.WeightsCache] names a directory where its result is kept:
//
//	m, err := glm.Open(ctx, "GLM-4.7-Flash", glm.Config{Weights: glm.Int4, WeightsCache: "weights"})
//
// Converted weights are held in memory, in large pages. If there is too little they
// are mapped from the cache, which is then as fast as the disk, and without a cache
// the load fails with [ErrNoMemory].
//
// # Caveats
//
// Caches: a cache is found by the checkpoint's fingerprint, which samples every
// tensor. Delete it after editing single values of a checkpoint in place. What a
// cache holds is checked against damage, not against somebody who may write into
// its directory.
//
// Ownership: the caller closes what it opens; closing a Model closes its pools,
// closing a pool its sessions, and each waits for the running step. Slices in
// requests are read until the stream ends and not changed.
//
// Threads: methods may be called from any goroutine. A session runs one
// generation at a time; use one session per conversation. Steps of one model run
// one after the other, whatever pool they serve.
//
// Lifetimes: a stream does nothing until it is ranged over and nothing after the
// loop. Weights are mapped from their files: replace files by renaming new ones
// over them, never by writing into them.
//
// Known channels: how long an answer takes depends on what others run.
//
// An [Inspection] of a directory without weight files, or of a model whose files
// are in a layout that is not understood, is computed from config.json: its
// Checked field says which.
package glm
