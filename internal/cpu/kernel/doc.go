// Package kernel holds the inner loops of internal/cpu.
//
// # Two builds
//
// Every kernel exists as plain Go and, on amd64, as AVX2 assembly with fused
// multiply-add. Which one runs is decided once, from the processor; the build tag
// purego leaves the assembly out. Assembly fuses a multiplication with its
// addition, plain Go rounds in between: results differ by at most
// (k/8 + 8) * 2^-24 * sum |w_i x_i|, never within one build.
//
// # Order of sums
//
// A product along k is kept as [Lanes] partial sums: sum j takes k = j mod Lanes
// in ascending k. [Sum4] adds them in order. Kernels add to partial sums that the
// caller keeps, so k may be cut into blocks at any multiple of Lanes without
// changing a bit, and every kernel here gives the bits of every other.
//
// # Caveats
//
// Kernels check lengths and nothing else. Weights may be memory that faults when
// read; a fault leaves the partial sums as they were.
package kernel
