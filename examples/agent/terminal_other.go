//go:build !linux && !darwin && !windows

package main

import "os"

// prepare knows no terminals here: the output is plain.
func prepare(*os.File) bool { return false }

func columns(*os.File) int { return 0 }
