// Package launchcheck looks for a leak before a server opens its doors. It runs
// on any model, the operator's own checkpoint on the operator's own machine, and
// judges by content and accounting: a status of success proves nothing.
//
//	report := launchcheck.Run(ctx, model, nil)
//	report.WriteTo(os.Stdout)
//	if !report.OK() {
//		os.Exit(1)
//	}
//
// # What it does
//
// One tenant, the donor, sends prompts of canary tokens that nobody else uses.
// Other tenants send prompts of their own, and must get, bit for bit, the tokens
// and log-probabilities that a pool gives which nobody has used before:
//
//   - beside the donor, in one batch;
//   - on pages that the donor has just left: ended, evicted, cancelled at many
//     points, closed, requeued under Clamp, forgotten;
//   - at every length around the limit of the pool and of the configuration, and
//     on both sides of a page's end;
//   - from the queue, when it is full and when it moves.
//
// No canary may occur in their output. Cached tokens must be exactly what the
// tenant itself computed earlier, to the page. Rows computed and reused must be
// the rows that prompt and output have. A prompt above the limit must leave no
// trace. After each check the pool must be at rest, its invariants must hold,
// every page must be free once the tenants are forgotten, and free memory must
// be all zero.
//
// Guards overlap: of a build that lacks one, nothing of this would show. So the
// check begins with [kvcache.Drill], which puts every guard to the test alone.
//
// # What it costs
//
// Some 6,000 rows, most of them in prompts, and pools of some 16 pages: half an
// hour on a model that computes three rows in a second. A fast one is asked for
// longer answers, and takes a second or two.
//
// # Caveats
//
// A report without doubts says that this build on this machine kept these
// tenants apart in these situations. It does not look at timing, at the host
// program's own caches, or at anything before Generate and after its events.
//
// The comparison is exact. That is right where a row's bits depend on the row
// alone, as on the CPU; a device with a tolerance would raise doubts.
//
// Threads: Run makes its requests from several goroutines and takes the model
// for itself: other users of the model only slow it down.
package launchcheck
