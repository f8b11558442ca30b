package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
)

// published parses one of testdata/config, which state the fields of published
// models.
func published(t *testing.T, name string) *Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "config", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// totals are sums over an inventory.
type totals struct {
	tensors, params, bytes int64
	biases                 int64 // router correction biases
	kind                   map[Kind]int64
	routed                 int64 // parameters of routed experts outside MTP layers
}

func sum(c *Config, l Layout) totals {
	s := totals{kind: make(map[Kind]int64)}
	for e := range Inventory(c, l) {
		s.tensors++
		s.bytes += e.Bytes()
		if e.Scale {
			continue
		}
		s.params += e.Elements()
		s.kind[e.Kind] += e.Elements()
		if filepath.Ext(e.Name) == ".e_score_correction_bias" {
			s.biases += e.Elements()
		}
		if e.Routed && e.Kind == KindExpert {
			s.routed += e.Elements()
		}
	}
	return s
}

// Byte totals read from the headers of the published files.
func TestInventoryBytes(t *testing.T) {
	s := sum(published(t, "glm-5.2-fp8"), LayoutFP8)
	if s.bytes != 755_617_140_416 {
		t.Errorf("GLM-5.2-FP8: %d bytes; want 755617140416", s.bytes)
	}
	if s.params != 753_329_940_480 || s.params-s.biases != 753_329_921_024 {
		t.Errorf("GLM-5.2-FP8: %d parameters, %d without router biases; want 753329940480, 753329921024", s.params, s.params-s.biases)
	}
	s = sum(published(t, "glm-5.3-flash"), LayoutFP8)
	if s.bytes != 328_326_771_576 || s.tensors != 76_108 {
		t.Errorf("GLM-5.3-Flash: %d bytes in %d tensors; want 328326771576 in 76108", s.bytes, s.tensors)
	}
}

// Parameter figures of the published models: main stack, MTP, vision.
func TestInventoryParameters(t *testing.T) {
	for _, m := range []struct {
		name              string
		main, mtp, vision int64
	}{
		{"glm-5", 743_911_218_432, 9_952_920_576, 0},
		{"glm-5.2", 743_377_019_904, 9_952_920_576, 0},
		{"glm-5.3-flash", 313_326_811_966, 7_432_592_416, 563_627_008},
		{"glm-4.5", 352_797_829_024, 0, 0},
		{"glm-4.7", 352_797_829_024, 0, 0},
		{"glm-4.5-air", 106_852_251_264, 0, 0},
		{"glm-4.7-flash", 29_943_393_920, 0, 0},
	} {
		s := sum(published(t, m.name), LayoutBF16)
		mtp, vision := s.kind[KindMTP], s.kind[KindVision]
		t.Logf("%s: total %d, mtp %d, vision %d, active %d, kinds %v", m.name, s.params, mtp, vision, s.params-mtp-vision-s.routed, s.kind)
		if got := s.params - mtp - vision; got != m.main {
			t.Errorf("%s: main stack %d; want %d (off by %d; biases %d)", m.name, got, m.main, got-m.main, s.biases)
		}
		if m.mtp != 0 && mtp != m.mtp {
			t.Errorf("%s: MTP %d; want %d", m.name, mtp, m.mtp)
		}
		if vision != m.vision {
			t.Errorf("%s: vision %d; want %d", m.name, vision, m.vision)
		}
	}
}
