// Package backendtest is the suite that every backend must pass.
//
// # What is compared
//
// A scene is a small program with seeded content. It is set up on the backend
// under test and on the float64 oracle and played over layouts: ragged steps of
// several sequences with padding in the middle and at the end. The content of a
// row follows from its sequence and position alone, so outcomes of different
// layouts can be compared row by row.
//
// Every play poisons what the program has to write, fills the pages that the
// step does not own with NaN, and afterwards compares every byte that should
// not have changed.
//
// # What is demanded
//
// The formula of every operation, within a bound stated beside each comparison.
// Laws that hold bit for bit: a row does not move when every other row's content
// changes or turns into NaN, when its pages lie elsewhere, when it is computed
// alone, in chunks or after other work in the same scratch. Exact rules: ties,
// NaN, infinities, what fails a row, the order of sampling.
//
// # Caveats
//
// Bit equality between layouts is the CPU's law. A device that only states a
// tolerance will need its own form of Batch and Chunked. The oracle is checked
// with the same suite, where the formula part says nothing; its own tests hold
// numbers worked out by hand.
package backendtest
