package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// prepare reports whether a file is a console. One for output is made to
// understand escape sequences; one that cannot is no terminal for us.
func prepare(f *os.File) bool {
	h := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return f == os.Stdin || windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

// columns returns the width of a console, 0 if it does not say.
func columns(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right - info.Window.Left + 1)
}
