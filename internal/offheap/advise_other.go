//go:build !linux

package offheap

import "os"

func advise([]byte, bool) {}

func adviseFile(*os.File, int64, int64, bool) {}
