package checkpoint

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"
)

// editHeader replaces the JSON of a safetensors file.
func editHeader(t testing.TB, file []byte, edit func([]byte) []byte) []byte {
	t.Helper()
	n := binary.LittleEndian.Uint64(file)
	header := edit(append([]byte(nil), file[8:8+n]...))
	return rawSafetensors(header, file[8+n:])
}

// openFiles counts this process's file handles, -1 where the system does not
// say.
func openFiles(t testing.TB) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return -1
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
