package offheap

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// Available returns how many bytes processes could take without anything being
// swapped out, and -1 where the system does not say (everywhere but on Linux).
// It is the kernel's own estimate, or what the control groups (version 2) above
// this process leave, whichever is less. Pages of files that can be dropped count
// as available. The answer is old as soon as it is given.
func Available() int64 {
	return available(os.ReadFile)
}

func available(read func(name string) ([]byte, error)) int64 {
	text, err := read("/proc/meminfo")
	if err != nil {
		return -1
	}
	kib, ok := field(text, "MemAvailable:")
	if !ok {
		return -1
	}
	least := kib << 10
	text, _ = read("/proc/self/cgroup")
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "0::/")
		if !ok {
			continue
		}
		for dir := path.Join("/sys/fs/cgroup", rest); strings.HasPrefix(dir, "/sys/fs/cgroup"); dir = path.Dir(dir) {
			if n, ok := groupLeaves(read, dir); ok {
				least = min(least, n)
			}
		}
	}
	return least
}

// groupLeaves returns how much more the processes of a control group may take;
// false if the group has no limit.
func groupLeaves(read func(name string) ([]byte, error), dir string) (int64, bool) {
	limit, ok := number(read(dir + "/memory.max"))
	if !ok {
		return 0, false
	}
	used, ok := number(read(dir + "/memory.current"))
	if !ok {
		return 0, false
	}
	stat, _ := read(dir + "/memory.stat")
	active, _ := field(stat, "active_file")
	inactive, _ := field(stat, "inactive_file")
	return max(0, limit-used+active+inactive), true
}

// number reads a file of one number; "max" is none.
func number(text []byte, err error) (int64, bool) {
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil && n >= 0
}

// field reads the number behind a name at the start of a line.
func field(text []byte, name string) (int64, bool) {
	for line := range bytes.Lines(text) {
		if f := strings.Fields(string(line)); len(f) >= 2 && f[0] == name {
			return number([]byte(f[1]), nil)
		}
	}
	return 0, false
}
