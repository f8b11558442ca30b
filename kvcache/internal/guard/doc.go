// Package guard holds one switch per isolation guard of package kvcache.
//
// In a normal build every switch is the constant true, so the compiler drops
// the branch that a switched-off guard would take: there is no way to turn one
// off. Under the build tag cofferdam_unsafe the same names are variables, for
// tests that remove guards one by one and show that any single one of them
// still stops the leak.
package guard
