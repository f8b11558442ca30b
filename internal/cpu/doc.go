// Package cpu computes programs on the CPU: the product path where there is no
// accelerator.
//
// # Row invariance
//
// A row's output bits depend on that row's inputs, the weight and KV formats
// and the instruction set, and on nothing else: not on the chunk or batch it
// came in, its neighbours, or the number of threads. Every sum therefore has
// one order, written down in reduction.go, and every kernel follows it. Work is
// divided by output element, never along a sum.
//
// # Weights
//
// A weight is read as it is stored, or was packed into a blob: int8 or int4 in
// groups of 32 along k, laid out for the kernels. format.go has the table of what
// becomes what, packed.go the layout. A blob is opaque to everybody else; a cache on
// disk may keep it under [FormatVersion].
//
// Products with packed weights round their activations to 8 bits in the same groups.
// A row is rounded once, where it is made or before the first product that reads it,
// and by itself, so that row invariance holds as it does for f32.
//
// # Attention
//
// The keys that a row attends over are cut into blocks of 64; each gives maxima, sums
// and weighted values, and blocks are combined in ascending order. In MLA with few rows
// a task is a block, for all heads if there are blocks enough; with many rows it is a
// row, or some heads of it. In GQA it is a row and a key head. FastPrefill has blocks of
// its own, of 128 keys.
//
// # How work is divided
//
// A [Backend] owns a pool of workers. One operation is one or a few phases;
// within a phase, workers claim tasks until none is left and look at the step's
// abort word before each. Matrix products are tasks of some output columns: a few
// rows multiply the weights as they are stored, in long pieces first and short ones in
// the end, since memory is slow at the beginning of a piece; many rows share weights
// that are decoded block by block, so no weight is ever expanded whole; panels serve
// any number of rows as they lie. The inner loops are the kernels of internal/cpu/kernel.
//
// A step allocates nothing once one of its size has run.
//
// # Caveats
//
// Stored weights are read from the bytes of the View they were loaded from, packed
// ones from their blob: the checkpoint or the blobs' memory must stay as long as the
// backend. Where such a read faults, as it does when a file was truncated under its
// mapping, the load or step ends with a *backend.FaultError instead of ending the
// process.
//
// A slice of KV memory is a slice of mapped memory: pages must not be closed while
// a step runs.
package cpu
