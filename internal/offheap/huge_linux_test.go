package offheap

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"
)

// mapping is what the kernel says about the mapping that begins at an address.
func mapping(t *testing.T, b []byte) (resident, huge int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	inside := false
	for line := range bytes.Lines(text) {
		var lo, hi uint64
		if n, _ := fmt.Sscanf(string(line), "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= at && at < hi
		}
		if !inside {
			continue
		}
		if n, ok := field(line, "Rss:"); ok {
			resident = n << 10
		}
		if n, ok := field(line, "AnonHugePages:"); ok {
			huge = n << 10
		}
	}
	return resident, huge
}

// The memory is there before anybody touches it, and in large pages where the
// system gives them.
func TestHugeIsThere(t *testing.T) {
	const n = 64 << 20
	r, err := AllocHuge(n)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	resident, huge := mapping(t, r.Bytes())
	if resident < n {
		t.Errorf("%d of %d bytes are resident", resident, n)
	}
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || bytes.Contains(mode, []byte("[never]")) {
		t.Skip("no large pages on this system")
	}
	t.Logf("%d of %d MiB in large pages", huge>>20, n>>20)
	if huge == 0 {
		t.Error("no large page at all, though the system has them")
	}
}

func TestForgetLeavesMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := MapFile(f, 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum := byte(0)
	for i := 0; i < 8<<20; i += 4096 {
		sum |= r.Bytes()[i]
	}
	if before, _ := mapping(t, r.Bytes()); before < 8<<20 || sum != 0 {
		t.Fatalf("%d bytes resident after reading 8 MiB of zeros", before)
	}
	r.Forget(100, 8<<20)
	if after, _ := mapping(t, r.Bytes()); after > 0 {
		t.Errorf("%d bytes resident after Forget", after)
	}
}

func TestAvailable(t *testing.T) {
	const meminfo = "MemTotal:       24683652 kB\nMemFree:         9385060 kB\nMemAvailable:   1000 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no proc", nil, -1},
		{"an old kernel", map[string]string{"/proc/meminfo": "MemFree: 5 kB\n"}, -1},
		{"no groups", map[string]string{"/proc/meminfo": meminfo}, 1000 << 10},
		{"a group without a limit", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/b/memory.current": "7\n",
		}, 1000 << 10},
		{"a limited group", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:memory:/old\n0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "9000\n", "/sys/fs/cgroup/a/b/memory.current": "8000\n",
			"/sys/fs/cgroup/a/b/memory.stat": "anon 1\nactive_file 20\ninactive_file 3\n",
		}, 1023},
		{"a limited parent", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "9000\n", "/sys/fs/cgroup/a/b/memory.current": "10\n",
			"/sys/fs/cgroup/a/memory.max": "50\n", "/sys/fs/cgroup/a/memory.current": "60\n",
		}, 0},
		{"a container's own root", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/\n",
			"/sys/fs/cgroup/memory.max": "500\n", "/sys/fs/cgroup/memory.current": "60\n",
		}, 440},
	} {
		got := available(func(name string) ([]byte, error) {
			text, ok := c.files[name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
		if got != c.want {
			t.Errorf("%s: %d; want %d", c.name, got, c.want)
		}
	}
	if now := Available(); now <= 0 {
		t.Errorf("this system has %d bytes available", now)
	}
}
