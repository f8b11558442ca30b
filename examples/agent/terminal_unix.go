//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// prepare reports whether a file is a terminal that a person looks at.
func prepare(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil && os.Getenv("TERM") != "dumb"
}

// columns returns the width of a terminal, 0 if it does not say.
func columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
