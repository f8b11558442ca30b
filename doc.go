// Package cofferdam is the root of a module that runs GLM mixture-of-experts
// models inside Go programs: no Python, no C toolchain, no server.
//
// The root holds no code. Start at package
// [github.com/cofferdam-ml/cofferdam/glm], the public API.
package cofferdam
