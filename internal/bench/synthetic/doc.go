// Package synthetic makes models of true shapes whose weights nobody trained, for
// measurements that depend on shapes and formats but not on what is said.
//
// # Values
//
// Every element of a matrix is a code from -8 to 7 times the scale of its group of 32
// neighbours along the contraction, and each group holds one -8. So a matrix is exact
// in four bits with a scale, in bfloat16 and in float32 alike, and two engines can be
// given the same weights in formats of their own. Values come from one table of a
// prime number of groups, entered at a place that depends on the name, so that no two
// rows of a matrix are equal.
//
// # Models
//
// [Open] makes a checkpoint directory whose weight file has a header and a hole: the
// forward graph is built from it as from any other. A [Backend] hands the graph
// generated weights instead of the bytes of that hole, in the format that is to be
// measured, which need not be one that fits a disk.
//
// # Caveats
//
// Routing over random weights is close to uniform; that of a trained model is more
// skewed. FP8 weights are random codes, not the values of the other formats.
package synthetic
