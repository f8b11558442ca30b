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
// within a phase, workers claim tasks until none is left and look at the step's
// abort word before each. Matrix products are tasks of some output columns: a few
// rows multiply the weights as they are stored, many rows share weights that are
// decoded block by block, so no weight is ever expanded whole. The inner loops are
// the kernels of internal/cpu/kernel.
//
// A step allocates nothing once one of its size has run.
//
// # Caveats
//
// Weights are read from the bytes of the View they were loaded from, so the
// checkpoint must stay open as long as the backend. Where such a read faults, as
// it does when a file was truncated under its mapping, the load or step ends with
// a *backend.FaultError instead of ending the process.
//
// A slice of KV memory is a slice of mapped memory: pages must not be closed while
// a step runs.
package cpu
