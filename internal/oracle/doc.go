// Package oracle is the readable reference implementation of a
// [backend.Backend]: every operation written straight from its formula, in
// float64 on gonum.
//
// # How it computes
//
// Weights are dequantised when they are loaded (element times scale in f32,
// which is what a checkpoint means by its codes) and widened to float64.
// Scratch buffers hold float64 from operation to operation; Read rounds to f32.
// One row is computed at a time and one key at a time, so a row cannot depend on
// its neighbours.
//
// Latent attention is written in its naive form: the latent row of each key is
// expanded to a key and a value of every head, and ordinary attention follows.
// A backend that absorbs W_uk into the query is therefore compared with other
// algebra than its own. Routing is written again here rather than taken from the
// product's router, for the same reason.
//
// # Where f32 is part of the definition
//
// Three places round to f32 although float64 is at hand: rope angles (the f32
// product of the position and an f32 inverse frequency: at position 1,000,000
// one f32 step is 0.06 rad), the router's sigmoid and its sum with the bias
// (both are compared to choose experts, so their ties are f32 ties), and what is
// written to KV pages (f32, then the page's own format).
//
// # Caveats
//
// It is for models with thousands of parameters, not millions: a key is expanded
// again for every step that sees it, and nothing is blocked, cached or parallel.
// A program whose operands do not fit each other ends in an error from Wait that
// names the operation; a panic never crosses the interface.
package oracle
