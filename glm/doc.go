// Package glm is the public face of Cofferdam: GLM mixture-of-experts models
// inside a Go program.
//
// # What there is
//
// [Inspect] says what a checkpoint holds and what it would cost to run, from its
// configuration and headers alone.
//
// Loading and generating are not here yet.
//
// # Errors
//
// Errors are values with numbers in them. Test the kind with errors.Is against
// the sentinels of this package, and get the detail with errors.As: an
// *[UnsupportedError] names a field of config.json, a *[CheckpointError] the
// file, tensor and byte.
//
// # Caveats
//
// An [Inspection] of a directory without weight files, or of a model whose files
// are in a layout that is not understood, is computed from config.json: its
// Checked field says which. Cache sizes are of the main layers; using MTP
// layers takes more.
package glm
