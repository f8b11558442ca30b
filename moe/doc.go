// Package moe holds the mixture-of-experts logic that is not arithmetic on
// weights: how a row chooses its experts, and how the rows of a batch are
// grouped so that each expert's weights are read once.
//
// # Routing
//
// GLM routes by sigmoid scores with a learned bias that takes part in the
// choice and never in the weight ([Route]). The bias is two orders of magnitude
// larger than its spread (6.82 to 7.06 in one published layer), so it stays in
// f32 and is never subtracted back out.
//
// # Grouping
//
// [Group] turns the choices of all rows into one list per expert, in row order.
// A slot is the number of a choice: row*k + rank in the row's selection. Results
// are stored by slot and added per row in rank order, which keeps a row's sum
// independent of its neighbours.
//
// # Caveats
//
// Functions write into slices the caller owns and keep none of them.
package moe
