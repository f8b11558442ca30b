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
// # How work is divided
//
// A [Backend] owns a pool of workers. One operation is one or a few phases;
// within a phase, workers take tiles from a counter until none is left and look
// at the step's abort word before each. Matrix products tile the output columns
// and decode each weight row once for all rows of the batch, so quantised
// weights are never expanded whole.
//
// # Caveats
//
// Weights are read from the bytes of the View they were loaded from; unmapping
// those while the backend lives faults. Such a fault, or a file truncated under
// its mapping, ends the step with an error from Wait instead of ending the
// process.
package cpu
