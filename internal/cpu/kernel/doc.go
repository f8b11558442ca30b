// Package kernel holds the inner loops of internal/cpu: products with weights in
// each format, and what attention, norms and gates do to vectors.
//
// # Two builds
//
// Every kernel exists as plain Go and as assembly: AVX2 on amd64, NEON on arm64.
// Which one runs is decided once, from the processor; the build tag purego leaves
// the assembly out. Assembly fuses a multiplication with its addition, plain Go
// rounds in between: either is within (k/8 + 8) * 2^-24 * sum |w_i x_i| of the true
// product, and the two differ by no more than twice that, never within one build.
// AVX2 and NEON round alike and give the same bits.
//
// # Order of sums
//
// A product along k is kept as [Lanes] partial sums: sum j takes k = j mod Lanes
// in ascending k. [Sum4] adds them in order. Kernels add to partial sums that the
// caller keeps, so k may be cut into blocks at any multiple of Lanes without
// changing a bit, and every kernel here gives the bits of every other.
//
// Quantised weights have an order of their own: exact integers within groups of
// [Group], groups scaled and added in ascending order.
//
// The elementwise kernels treat an element by its distance from the end of the
// vector: the last len mod Lanes ones are plain Go. A vector of one length always
// gets the same bits; [SwiGLU], whose vectors are tiles of any length, gives them
// at any length.
//
// # Caveats
//
// Kernels check lengths and nothing else. Weights may be memory that faults when
// read; a fault leaves partial sums of no defined content.
//
// NEON was tested on an emulator only; how fast it is has not been measured.
//
// A scale of FP8 weights is multiplied by 256 on the way, so one of 2^120 or more
// overflows in assembly and not in plain Go. Weights that large are no weights.
package kernel
