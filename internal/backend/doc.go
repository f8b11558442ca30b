// Package backend is the contract between the forward graphs of a model and
// the device that computes them.
//
// # One forward pass
//
// A [Backend] computes one forward pass of one model over one ragged batch.
// Three values meet there:
//
//   - a [Program]: the list of operations of the model, built once when its
//     weights are loaded. An operation names weights, scratch buffers and layer
//     constants; it never holds a Go slice of data or a page table, so a device
//     may record it once and replay it.
//   - a [Step]: the rows of this pass, the sequences they belong to, and the
//     pages that hold each sequence's keys. It is immutable from Start to Wait.
//   - [Pages]: the KV memory.
//
// Start checks and uploads the step and begins the work; Wait returns the
// sampled ids, their log-probabilities and one [Health] word per row. Nothing
// can be read back in between.
//
// # Shapes
//
// R is the number of rows of a step (tokens, with padding), S the number of its
// sequences, O the number of rows whose logits are wanted. H is the hidden
// size. Activations are f32, row-major. Linear weights are [out, in]: y = W x.
//
// # Rules
//
// A row whose Seq is -1 reads and writes nothing. Every selected position p is
// checked 0 <= p <= position of the row inside the operation that uses it: a
// stale or poisoned list fails its row and is never followed. An operation
// overwrites every element it later reads, so nothing is carried in scratch
// from one step to the next. A NaN in a visible key fails the row and is never
// skipped, so poison cannot hide; a row with too few usable experts fails too. A
// failed row fails alone. KV bytes exported by one
// backend import into any other.
//
// # Caveats
//
// A Backend runs one step at a time; its methods are not safe for concurrent
// use. The bytes of a [View] must stay readable until Close. Read and Write
// serve tests and inspection and may only be called between Wait and Start.
package backend
